/* Names for vectors of 16 floats, in files that are included once for each width. */
#define VECTOR wide
#define NUM_LANES WIDE_LANES
#define NAME_OF(name) name##_wide
#define HERE WIDE
#define HERE_INLINE WIDE_INLINE
#define READ load_wide
#define WRITE store_wide
#define ALL all_wide
#define LARGER larger_wide
#define ROOT wide_square_root
#define LIVE wide_keep_live
