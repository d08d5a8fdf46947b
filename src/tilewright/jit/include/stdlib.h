// NVRTC has what device code takes of this header built in.
#pragma once
#include <stddef.h>
