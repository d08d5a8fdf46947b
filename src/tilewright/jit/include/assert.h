// NVRTC has assert built in, but looks at NDEBUG only before the first line. No guard, as in C: NDEBUG may change.
#ifdef NDEBUG
#undef assert
#define assert(condition) ((void)0)
#endif
