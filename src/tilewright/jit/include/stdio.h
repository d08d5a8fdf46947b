// NVRTC has printf built in; the rest of this header is for the host.
#pragma once
#include <stddef.h>
