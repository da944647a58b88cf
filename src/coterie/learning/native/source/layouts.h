/* Values between lanes and samples: (value, lane) and (sample, value). */
#ifndef COTERIE_LAYOUTS_H
#define COTERIE_LAYOUTS_H

#include "wide_vectors.h"

/* Bytes from lanes to samples: from (count, 8) to 8 rows of `count`, a multiple of 8. */
INLINE void bytes_to_samples(const uint8_t *from, uint8_t *to, int64_t count)
{
    for (int64_t i = 0; i < count; i += LANES)
        transpose_bytes(from + i * LANES, LANES, to + i, count);
}

#if HAS_WIDE
/* to_samples() for whole vectors of 16 values; return how many values that are. */
WIDE int64_t wide_to_samples(const float *from, float *to, int64_t stride, int64_t count)
{
    int64_t i = 0;
    for (; i + WIDE_LANES <= count; i += WIDE_LANES) {
        wide row[LANES], column[LANES];
        for (int b = 0; b < LANES; b++)
            row[b] = join(from + (i + b) * LANES, from + (i + LANES + b) * LANES);
        transpose_halves(row, column);
        for (int b = 0; b < LANES; b++) store_wide(to + b * stride + i, column[b]);
    }
    return i;
}

/* to_lanes() for whole vectors of 16 values; return how many values that are. */
WIDE int64_t wide_to_lanes(const float *const from[LANES], float *to, int64_t step, int64_t count)
{
    int64_t i = 0;
    for (; i + WIDE_LANES <= count; i += WIDE_LANES) {
        wide row[LANES], column[LANES];
        for (int b = 0; b < LANES; b++) row[b] = load_wide(from[b] + i);
        transpose_halves(row, column);
        for (int b = 0; b < LANES; b++)
            part(column[b], to + (i + b) * step * LANES, to + (i + LANES + b) * step * LANES);
    }
    return i;
}
#endif

/* Lanes to samples: from (count, 8) at `from` to rows of 8 samples, `stride` apart.
 * `count` is a multiple of 8. */
static void to_samples(const float *from, float *to, int64_t stride, int64_t count)
{
    int64_t i = 0;
#if HAS_WIDE
    if (has_wide) i = wide_to_samples(from, to, stride, count);
#endif
    for (; i < count; i += LANES) {
        vec row[LANES], column[LANES];
        for (int b = 0; b < LANES; b++) row[b] = load(from + (i + b) * LANES);
        transpose(row, column);
        for (int b = 0; b < LANES; b++) store(to + b * stride + i, column[b]);
    }
}

/* Samples to lanes: 8 rows of `count` values to (count, 8), successive ones `step` vectors apart.
 * Reads nothing beyond `count`. */
static void to_lanes(const float *const from[LANES], float *to, int64_t step, int64_t count)
{
    int64_t i = 0;
#if HAS_WIDE
    if (has_wide) i = wide_to_lanes(from, to, step, count);
#endif
    for (; i + LANES <= count; i += LANES) {
        vec row[LANES], column[LANES];
        for (int b = 0; b < LANES; b++) row[b] = load(from[b] + i);
        transpose(row, column);
        for (int b = 0; b < LANES; b++) store(to + (i + b) * step * LANES, column[b]);
    }
    for (; i < count; i++)
        for (int b = 0; b < LANES; b++) to[i * step * LANES + b] = from[b][i];
}

#endif
