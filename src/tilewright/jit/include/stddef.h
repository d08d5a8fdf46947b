// NVRTC has size_t, ptrdiff_t and NULL built in.
#pragma once

using nullptr_t = decltype(nullptr);

#ifndef offsetof
#define offsetof(type, member) (::size_t)((char*)&(((type*)0)->member) - (char*)0)
#endif
