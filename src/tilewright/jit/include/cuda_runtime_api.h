// Empty, since NVRTC has all of it built in.
#pragma once
