/* The innermost loops of dense convolutions.
 *
 * Where the processor has vectors of 16 floats, they are used: each of them holds two of the usual
 * ones. Every sum has the same terms in the same order, so the results are the same bits.
 */
#ifndef COTERIE_DENSE_SUMS_H
#define COTERIE_DENSE_SUMS_H

#include "convolution.h"

#define ENTRIES 256                /* sample positions whose inputs stay in the nearest cache */
#define BLOCK_OUTPUTS 4
#define BLOCK_VECTORS 3

/* Kernels for all output channels, and the lines of the values they are applied to. */
typedef struct {
    const float *weights, *biases; /* biases may be NULL */
    int64_t channels, rows, row;   /* output channels; lines of a kernel, and values in one */
    int64_t next_channel, next_row;
    int64_t line;                  /* floats from one line of the input to the next */
    int relu;
} Kernels;

INLINE void kernel_sums(const int outputs, const int positions, const Kernels *k, int64_t o,
                        const float *const *at, float *const *out)
{
    const float *weights = k->weights + o * k->next_channel;
    vec sum[12];
#pragma GCC unroll 12
    for (int c = 0; c < outputs; c++)
#pragma GCC unroll 4
        for (int p = 0; p < positions; p++)
            sum[p * outputs + c] = all(k->biases ? k->biases[o + c] : 0);
    for (int64_t y = 0; y < k->rows; y++) {
        const float *w = weights + y * k->next_row;
        const float *from[4];
        for (int p = 0; p < positions; p++) from[p] = at[p] + y * k->line;
        for (int64_t j = 0; j < k->row; j++) {
            vec x[4];
#pragma GCC unroll 4
            for (int p = 0; p < positions; p++) x[p] = load(from[p] + j * LANES);
#pragma GCC unroll 12
            for (int c = 0; c < outputs; c++) {
                const vec weight = all(w[c * k->next_channel + j]);
#pragma GCC unroll 4
                for (int p = 0; p < positions; p++) sum[p * outputs + c] += x[p] * weight;
            }
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < positions; p++)
#pragma GCC unroll 12
        for (int c = 0; c < outputs; c++) {
            const vec value = sum[p * outputs + c];
            store(out[p] + (o + c) * LANES, k->relu ? larger(all(0), value) : value);
        }
}

/* A separate function for each block: inlined together they would spill registers. */
#define DEFINE_SUMS(OUTPUTS, POSITIONS)                                                          \
    static __attribute__((noinline)) void sums_##OUTPUTS##_##POSITIONS(                          \
        const Kernels *k, int64_t o, const float *const *at, float *const *out)                  \
    {                                                                                            \
        kernel_sums(OUTPUTS, POSITIONS, k, o, at, out);                                          \
    }
DEFINE_SUMS(3, 4)
DEFINE_SUMS(2, 4)
DEFINE_SUMS(1, 4)
DEFINE_SUMS(12, 1)
DEFINE_SUMS(4, 1)
DEFINE_SUMS(1, 1)

#ifdef __AVX2__
#define HAS_WIDE 1
#define WIDE static __attribute__((noinline, target("avx512f")))
#define WIDE_INLINE static inline __attribute__((always_inline, target("avx512f")))
#define WIDE_LANES (2 * LANES)
typedef float wide __attribute__((vector_size(64), may_alias));
typedef float loose_wide __attribute__((vector_size(64), aligned(4), may_alias));

static int has_wide;

__attribute__((constructor)) static void look_for_wide(void)
{
    __builtin_cpu_init();
    has_wide = __builtin_cpu_supports("avx512f") != 0;
}

WIDE_INLINE wide load_wide(const float *from) { return *(const loose_wide *)from; }
WIDE_INLINE void store_wide(float *to, wide value) { *(loose_wide *)to = value; }
WIDE_INLINE wide all_wide(float f) { return (wide)_mm512_set1_ps(f); }
WIDE_INLINE wide join(const float *low, const float *high)
{
    const __m512d first = _mm512_castpd256_pd512((__m256d)load(low));
    return (wide)_mm512_insertf64x4(first, (__m256d)load(high), 1);
}
WIDE_INLINE void part(wide value, float *low, float *high)
{
    store(low, (vec)_mm512_castps512_ps256((__m512)value));
    store(high, (vec)_mm512_extractf64x4_pd((__m512d)value, 1));
}
WIDE_INLINE wide larger_wide(wide a, wide b) { return (wide)_mm512_max_ps((__m512)a, (__m512)b); }

/* kernel_sums() for four positions. */
WIDE_INLINE void wide_sums(const int outputs, const Kernels *k, int64_t o, const float *const *at,
                           float *const *out)
{
    const float *weights = k->weights + o * k->next_channel;
    wide sum[2][12];
#pragma GCC unroll 12
    for (int c = 0; c < outputs; c++)
        sum[0][c] = sum[1][c] = all_wide(k->biases ? k->biases[o + c] : 0);
    for (int64_t y = 0; y < k->rows; y++) {
        const float *w = weights + y * k->next_row;
        const float *a0 = at[0] + y * k->line, *a1 = at[1] + y * k->line;
        const float *a2 = at[2] + y * k->line, *a3 = at[3] + y * k->line;
        for (int64_t j = 0; j < k->row; j++) {
            const wide x = join(a0 + j * LANES, a1 + j * LANES);
            const wide z = join(a2 + j * LANES, a3 + j * LANES);
#pragma GCC unroll 12
            for (int c = 0; c < outputs; c++) {
                const wide weight = all_wide(w[c * k->next_channel + j]);
                sum[0][c] += x * weight;
                sum[1][c] += z * weight;
            }
        }
    }
#pragma GCC unroll 12
    for (int c = 0; c < outputs; c++) {
        if (k->relu)
            for (int p = 0; p < 2; p++) sum[p][c] = larger_wide(all_wide(0), sum[p][c]);
        part(sum[0][c], out[0] + (o + c) * LANES, out[1] + (o + c) * LANES);
        part(sum[1][c], out[2] + (o + c) * LANES, out[3] + (o + c) * LANES);
    }
}

#define DEFINE_WIDE_SUMS(OUTPUTS)                                                                \
    WIDE void wide_sums_##OUTPUTS(const Kernels *k, int64_t o, const float *const *at,           \
                                  float *const *out)                                             \
    {                                                                                            \
        wide_sums(OUTPUTS, k, o, at, out);                                                       \
    }
DEFINE_WIDE_SUMS(12)
DEFINE_WIDE_SUMS(8)
DEFINE_WIDE_SUMS(4)
DEFINE_WIDE_SUMS(1)

static int64_t wide_channels(const Kernels *k, const float *const *at, float *const *out)
{
    int64_t o = 0;
    /* Blocks of 8 rather than 12 and a small rest. */
    const int64_t block = k->channels % 12 > k->channels % 8 ? 8 : 12;
    if (block == 12)
        for (; o + 12 <= k->channels; o += 12) wide_sums_12(k, o, at, out);
    for (; o + 8 <= k->channels; o += 8) wide_sums_8(k, o, at, out);
    for (; o + 4 <= k->channels; o += 4) wide_sums_4(k, o, at, out);
    for (; o < k->channels; o++) wide_sums_1(k, o, at, out);
    return o;
}
#else
#define HAS_WIDE 0
static const int has_wide = 0;
#endif

/* Where the inputs and the gradients of some sample positions are. */
typedef struct {
    const float *in[ENTRIES], *gradient[ENTRIES];
    int64_t count;
} Entries;

INLINE void add_products(const int outputs, const int width, const Entries *e, int64_t offset,
                         int64_t output, float *to, int64_t next)
{
    vec sum[BLOCK_OUTPUTS * BLOCK_VECTORS];
#pragma GCC unroll 4
    for (int o = 0; o < outputs; o++)
#pragma GCC unroll 3
        for (int v = 0; v < width; v++) sum[o * width + v] = load(to + o * next + v * LANES);
    for (int64_t i = 0; i < e->count; i++) {
        const float *in = e->in[i] + offset, *gradient = e->gradient[i] + output;
        vec x[BLOCK_VECTORS];
#pragma GCC unroll 3
        for (int v = 0; v < width; v++) x[v] = load(in + v * LANES);
#pragma GCC unroll 4
        for (int o = 0; o < outputs; o++) {
            const vec g = all(gradient[o]);
#pragma GCC unroll 3
            for (int v = 0; v < width; v++) sum[o * width + v] += g * x[v];
        }
    }
#pragma GCC unroll 4
    for (int o = 0; o < outputs; o++)
#pragma GCC unroll 3
        for (int v = 0; v < width; v++) store(to + o * next + v * LANES, sum[o * width + v]);
}

typedef void (*Products)(const Entries *e, int64_t offset, int64_t output, float *to, int64_t next);
#define DEFINE_ADD(OUTPUTS, WIDTH)                                                               \
    static __attribute__((noinline)) void add_##OUTPUTS##_##WIDTH(                               \
        const Entries *e, int64_t offset, int64_t output, float *to, int64_t next)               \
    {                                                                                            \
        add_products(OUTPUTS, WIDTH, e, offset, output, to, next);                               \
    }
#define FOR_ALL_BLOCKS(DO)                                                                       \
    DO(1, 1) DO(1, 2) DO(1, 3) DO(2, 1) DO(2, 2) DO(2, 3) DO(3, 1) DO(3, 2) DO(3, 3)             \
    DO(4, 1) DO(4, 2) DO(4, 3)
FOR_ALL_BLOCKS(DEFINE_ADD)
#define NAME_ADD(OUTPUTS, WIDTH) [OUTPUTS][WIDTH] = add_##OUTPUTS##_##WIDTH,
static const Products PRODUCTS[BLOCK_OUTPUTS + 1][BLOCK_VECTORS + 1] = {FOR_ALL_BLOCKS(NAME_ADD)};

#if HAS_WIDE
#define WIDE_OUTPUTS 8

/* add_products() for `outputs` outputs and `width` vectors of 16 floats. */
WIDE_INLINE void wide_products(const int outputs, const int width, const Entries *e,
                               int64_t offset, int64_t output, float *to, int64_t next)
{
    wide sum[WIDE_OUTPUTS * BLOCK_VECTORS];
#pragma GCC unroll 8
    for (int o = 0; o < outputs; o++)
#pragma GCC unroll 3
        for (int v = 0; v < width; v++)
            sum[o * width + v] = load_wide(to + o * next + v * WIDE_LANES);
    for (int64_t i = 0; i < e->count; i++) {
        const float *in = e->in[i] + offset, *gradient = e->gradient[i] + output;
        wide x[BLOCK_VECTORS];
#pragma GCC unroll 3
        for (int v = 0; v < width; v++) x[v] = load_wide(in + v * WIDE_LANES);
#pragma GCC unroll 8
        for (int o = 0; o < outputs; o++) {
            const wide g = all_wide(gradient[o]);
#pragma GCC unroll 3
            for (int v = 0; v < width; v++) sum[o * width + v] += g * x[v];
        }
    }
#pragma GCC unroll 8
    for (int o = 0; o < outputs; o++)
#pragma GCC unroll 3
        for (int v = 0; v < width; v++)
            store_wide(to + o * next + v * WIDE_LANES, sum[o * width + v]);
}

#define DEFINE_WIDE_ADD(WIDTH)                                                                   \
    WIDE void wide_add_##WIDTH(const Entries *e, int64_t offset, int64_t output, float *to,      \
                               int64_t next)                                                     \
    {                                                                                            \
        wide_products(WIDE_OUTPUTS, WIDTH, e, offset, output, to, next);                         \
    }
DEFINE_WIDE_ADD(1)
DEFINE_WIDE_ADD(2)
DEFINE_WIDE_ADD(3)
static const Products WIDE_PRODUCTS[BLOCK_VECTORS + 1] = {
    [1] = wide_add_1, [2] = wide_add_2, [3] = wide_add_3};
#endif

#endif
