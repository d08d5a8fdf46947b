// NVRTC has size_t, ptrdiff_t and NULL built in.
#pragma once

using nullptr_t = decltype(nullptr);

#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
