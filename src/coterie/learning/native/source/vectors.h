/* Vectors of eight floats: one lane for each of eight samples, or eight neighbouring values.
 *
 * Written with the vector extensions of GCC and clang, so that the same source serves every
 * processor; there are a few intrinsics where the compilers generate slow code.
 */
#ifndef COTERIE_VECTORS_H
#define COTERIE_VECTORS_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#define LANES 8
#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(32), may_alias));
typedef float loose_vec __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(32), may_alias));
typedef int32_t loose_ints __attribute__((vector_size(32), aligned(4), may_alias));

INLINE vec load(const float *from) { return *(const loose_vec *)from; }
INLINE void store(float *to, vec value) { *(loose_vec *)to = value; }
INLINE ints load_ints(const int32_t *from) { return *(const loose_ints *)from; }
INLINE void store_ints(int32_t *to, ints value) { *(loose_ints *)to = value; }
INLINE vec all(float f) { return (vec){f, f, f, f, f, f, f, f}; }
INLINE ints all_ints(int32_t i) { return (ints){i, i, i, i, i, i, i, i}; }

/* Eight numbers below 256, kept in eight bytes. */
INLINE ints load_bytes(const uint8_t *from)
{
#ifdef __AVX2__
    return (ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
#else
    ints value;
    for (int i = 0; i < LANES; i++) value[i] = from[i];
    return value;
#endif
}

INLINE void store_bytes(uint8_t *to, ints value)
{
#ifdef __AVX2__
    const __m128i low = _mm256_castsi256_si128((__m256i)value);
    const __m128i words = _mm_packs_epi32(low, _mm256_extracti128_si256((__m256i)value, 1));
    _mm_storel_epi64((__m128i *)to, _mm_packus_epi16(words, words));
#else
    for (int i = 0; i < LANES; i++) to[i] = (uint8_t)value[i];
#endif
}

INLINE int64_t rounded_up(int64_t count) { return (count + LANES - 1) / LANES * LANES; }

/* `one` where the mask is set (all bits), `other` elsewhere. */
INLINE vec choose(ints mask, vec one, vec other)
{
    return (vec)(((ints)one & mask) | ((ints)other & ~mask));
}

INLINE ints choose_ints(ints mask, ints one, ints other) { return (one & mask) | (other & ~mask); }

/* The larger one; `b` where either is NaN, so larger(zero, x) keeps a NaN in x. */
INLINE vec larger(vec a, vec b)
{
#ifdef __AVX2__
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return choose((ints)(a > b), a, b);
#endif
}

/* A gradient, zero where the value after a ReLU is dead. Not value > 0: the gradient of a NaN is
 * kept, so that divergence is seen. */
INLINE vec keep_live(vec value, vec gradient)
{
    return choose((ints)(value <= all(0)), all(0), gradient);
}

INLINE vec square_root(vec x)
{
#ifdef __AVX2__
    return (vec)_mm256_sqrt_ps((__m256)x);
#else
    vec root;
    for (int i = 0; i < LANES; i++) root[i] = sqrtf(x[i]);
    return root;
#endif
}

/* Transpose 8 x 8 values. */
INLINE void transpose(const vec row[8], vec column[8])
{
#ifdef __AVX2__
    __m256 pair[8], quad[8];
    for (int i = 0; i < 8; i += 2) {
        pair[i] = _mm256_unpacklo_ps((__m256)row[i], (__m256)row[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps((__m256)row[i], (__m256)row[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            quad[i + 2 * j] = _mm256_shuffle_ps(pair[i + j], pair[i + j + 2], 0x44);
            quad[i + 2 * j + 1] = _mm256_shuffle_ps(pair[i + j], pair[i + j + 2], 0xEE);
        }
    for (int i = 0; i < 4; i++) {
        column[i] = (vec)_mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
        column[i + 4] = (vec)_mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
    }
#else
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) column[j][i] = row[i][j];
#endif
}

/* Transpose 8 x 8 bytes; rows lie `step` apart, and `to_step` afterwards. */
INLINE void transpose_bytes(const uint8_t *from, int64_t step, uint8_t *to, int64_t to_step)
{
#ifdef __SSE2__
    __m128i row[8], pair[4], quad[4];
    for (int b = 0; b < 8; b++) row[b] = _mm_loadl_epi64((const __m128i *)(from + b * step));
    for (int b = 0; b < 4; b++) pair[b] = _mm_unpacklo_epi8(row[2 * b], row[2 * b + 1]);
    for (int b = 0; b < 2; b++) {
        quad[b] = _mm_unpacklo_epi16(pair[2 * b], pair[2 * b + 1]);
        quad[b + 2] = _mm_unpackhi_epi16(pair[2 * b], pair[2 * b + 1]);
    }
    for (int b = 0; b < 4; b += 2) {
        const __m128i low = _mm_unpacklo_epi32(quad[b], quad[b + 1]);
        const __m128i high = _mm_unpackhi_epi32(quad[b], quad[b + 1]);
        uint8_t *at = to + 2 * b * to_step;
        _mm_storel_epi64((__m128i *)at, low);
        _mm_storel_epi64((__m128i *)(at + to_step), _mm_unpackhi_epi64(low, low));
        _mm_storel_epi64((__m128i *)(at + 2 * to_step), high);
        _mm_storel_epi64((__m128i *)(at + 3 * to_step), _mm_unpackhi_epi64(high, high));
    }
#else
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < LANES; j++) to[j * to_step + i] = from[i * step + j];
#endif
}

/* Write the values whose mask is set, and their offsets, one after another; return how many.
 * Up to 8 places after the last one written are overwritten. */
#ifdef __AVX2__
/* For every mask of 8 bits, the positions of its set bits, one per byte. */
static uint64_t compress_order[256];

__attribute__((constructor)) static void fill_compress_order(void)
{
    for (unsigned mask = 0; mask < 256; mask++) {
        uint64_t order = 0;
        int count = 0;
        for (uint64_t bit = 0; bit < 8; bit++)
            if (mask >> bit & 1) order |= bit << (8 * count++);
        compress_order[mask] = order;
    }
}

INLINE int compress(ints mask, vec values, ints offsets, float *to_values, int32_t *to_offsets)
{
    const int bits = _mm256_movemask_ps((__m256)mask);
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)&compress_order[bits]);
    const __m256i order = _mm256_cvtepu8_epi32(bytes);
    store(to_values, (vec)_mm256_permutevar8x32_ps((__m256)values, order));
    store_ints(to_offsets, (ints)_mm256_permutevar8x32_epi32((__m256i)offsets, order));
    return __builtin_popcount((unsigned)bits);
}
#else
INLINE int compress(ints mask, vec values, ints offsets, float *to_values, int32_t *to_offsets)
{
    int count = 0;
    for (int i = 0; i < LANES; i++) {
        to_values[count] = values[i];
        to_offsets[count] = offsets[i];
        count -= mask[i];
    }
    return count;
}
#endif

#endif
