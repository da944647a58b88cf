/* Names for vectors of eight floats, in files that are included once for each width. */
#define VECTOR vec
#define NUM_LANES LANES
#define NAME_OF(name) name##_narrow
#define HERE static __attribute__((noinline))
#define HERE_INLINE INLINE
#define READ load
#define WRITE store
#define ALL all
#define LARGER larger
#define ROOT square_root
#define LIVE keep_live
