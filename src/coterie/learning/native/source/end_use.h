/* Forget the names of use_narrow.h or use_wide.h. */
#undef VECTOR
#undef NUM_LANES
#undef NAME_OF
#undef HERE
#undef HERE_INLINE
#undef READ
#undef WRITE
#undef ALL
#undef LARGER
#undef ROOT
#undef LIVE
