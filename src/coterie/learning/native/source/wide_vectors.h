/* Vectors of 16 floats, where the processor has them: each holds two of the usual ones.
 *
 * They are used only where every sum keeps the same terms in the same order, so that the results
 * are the same bits as without them.
 */
#ifndef COTERIE_WIDE_VECTORS_H
#define COTERIE_WIDE_VECTORS_H

#include "vectors.h"

#define WIDE_LANES (2 * LANES)

#ifdef __AVX2__
#define HAS_WIDE 1
#define WIDE_TARGET target("avx512f,avx512vl,avx512bw,avx512dq")
#define WIDE static __attribute__((noinline, WIDE_TARGET))
#define WIDE_INLINE static inline __attribute__((always_inline, WIDE_TARGET))

typedef float wide __attribute__((vector_size(64), may_alias));
typedef float loose_wide __attribute__((vector_size(64), aligned(4), may_alias));

static int has_wide;

static int find_wide(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

__attribute__((constructor)) static void look_for_wide(void) { has_wide = find_wide(); }

WIDE_INLINE wide load_wide(const float *from) { return *(const loose_wide *)from; }
WIDE_INLINE void store_wide(float *to, wide value) { *(loose_wide *)to = value; }
WIDE_INLINE wide all_wide(float f) { return (wide)_mm512_set1_ps(f); }
WIDE_INLINE wide join(const float *low, const float *high)
{
    const __m512d first = _mm512_castpd256_pd512((__m256d)load(low));
    return (wide)_mm512_insertf64x4(first, (__m256d)load(high), 1);
}
WIDE_INLINE vec low_half(wide value) { return (vec)_mm512_castps512_ps256((__m512)value); }
WIDE_INLINE vec high_half(wide value) { return (vec)_mm512_extractf64x4_pd((__m512d)value, 1); }
WIDE_INLINE void part(wide value, float *low, float *high)
{
    store(low, low_half(value));
    store(high, high_half(value));
}
WIDE_INLINE wide wide_square_root(wide x) { return (wide)_mm512_sqrt_ps((__m512)x); }
WIDE_INLINE wide wide_keep_live(wide value, wide gradient)
{
    const __mmask16 live = _mm512_cmp_ps_mask((__m512)value, _mm512_setzero_ps(), _CMP_NLE_UQ);
    return (wide)_mm512_maskz_mov_ps(live, (__m512)gradient);
}
/* Transpose 8 x 8 values in the lower halves, and 8 x 8 in the upper ones. */
WIDE_INLINE void transpose_halves(const wide row[LANES], wide column[LANES])
{
    const __m512i lower = _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0);
    const __m512i upper = _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2);
    __m512 pair[8], quad[8];
    for (int i = 0; i < 8; i += 2) {
        pair[i] = _mm512_unpacklo_ps((__m512)row[i], (__m512)row[i + 1]);
        pair[i + 1] = _mm512_unpackhi_ps((__m512)row[i], (__m512)row[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            quad[i + 2 * j] = _mm512_shuffle_ps(pair[i + j], pair[i + j + 2], 0x44);
            quad[i + 2 * j + 1] = _mm512_shuffle_ps(pair[i + j], pair[i + j + 2], 0xEE);
        }
    for (int i = 0; i < 4; i++) {
        const __m512d one = (__m512d)quad[i], other = (__m512d)quad[i + 4];
        column[i] = (wide)_mm512_permutex2var_pd(one, lower, other);
        column[i + 4] = (wide)_mm512_permutex2var_pd(one, upper, other);
    }
}
/* The larger one; `b` where either is NaN, as with larger(). */
WIDE_INLINE wide larger_wide(wide a, wide b) { return (wide)_mm512_max_ps((__m512)a, (__m512)b); }
#else
#define HAS_WIDE 0
static const int has_wide = 0;
#endif

#endif
