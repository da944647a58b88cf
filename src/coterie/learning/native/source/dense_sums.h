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
