/* Sums of patches of kernel size: the innermost loops of convolutions backward. */
#ifndef COTERIE_PATCHES_H
#define COTERIE_PATCHES_H

#include "network.h"
#include "wide_vectors.h"

/* Add gradient x patch for each entry of a list: `rows` x `width` vectors kept in registers.
 * For weights, the patch is fixed and the entries pick inputs; for inputs, the other way round. */
#define MOST_REGISTERS 12
typedef void (*Patch)(float *patch, int64_t patch_line, const float *from, int64_t from_line,
                      const int32_t *offsets, const float *gradients, int64_t count);

INLINE void add_patches(const int rows, const int width, float *patch, int64_t patch_line,
                        const float *from, int64_t from_line, const int32_t *offsets,
                        const float *gradients, int64_t count)
{
    /* Unrolled throughout, or the compiler would copy the sums by way of the stack. */
    vec sum[MOST_REGISTERS];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
        for (int v = 0; v < width; v++)
            sum[r * width + v] = load(patch + r * patch_line + v * LANES);
    for (int64_t e = 0; e < count; e++) {
        const float *at = from + offsets[e];
        const vec g = all(gradients[e]);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
            for (int v = 0; v < width; v++)
                sum[r * width + v] += g * load(at + r * from_line + v * LANES);
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
        for (int v = 0; v < width; v++)
            store(patch + r * patch_line + v * LANES, sum[r * width + v]);
}

#define DEFINE_PATCH(R, V)                                                                  \
    static void patch_##R##_##V(float *patch, int64_t patch_line, const float *from,        \
                                int64_t from_line, const int32_t *offsets,                  \
                                const float *gradients, int64_t count)                      \
    {                                                                                       \
        add_patches(R, V, patch, patch_line, from, from_line, offsets, gradients, count);   \
    }
#define FOR_ALL_PATCHES(DO)                                                                 \
    DO(1, 1) DO(2, 1) DO(3, 1) DO(4, 1) DO(5, 1) DO(6, 1) DO(7, 1) DO(8, 1) DO(9, 1)        \
    DO(10, 1) DO(11, 1) DO(12, 1) DO(1, 2) DO(2, 2) DO(3, 2) DO(4, 2) DO(5, 2) DO(6, 2)     \
    DO(1, 3) DO(2, 3) DO(3, 3) DO(4, 3) DO(1, 4) DO(2, 4) DO(3, 4) DO(1, 5) DO(2, 5)        \
    DO(1, 6) DO(2, 6) DO(1, 7) DO(1, 8) DO(1, 9) DO(1, 10) DO(1, 11) DO(1, 12)
FOR_ALL_PATCHES(DEFINE_PATCH)
#define NAME_PATCH(R, V) [R][V] = patch_##R##_##V,
typedef Patch PatchTable[MOST_REGISTERS + 1][MOST_REGISTERS + 1]; /* by rows and vectors in a row */
static const PatchTable PATCHES = {FOR_ALL_PATCHES(NAME_PATCH)};

#if HAS_WIDE
#define MOST_WIDE_REGISTERS 20
#define MOST_WIDE_ROWS 8
#define MOST_WIDE_VECTORS 6

/* add_patches() for vectors of 16 floats. */
WIDE_INLINE void add_wide_patches(const int rows, const int width, float *patch,
                                  int64_t patch_line, const float *from, int64_t from_line,
                                  const int32_t *offsets, const float *gradients, int64_t count)
{
    wide sum[MOST_WIDE_REGISTERS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 6
        for (int v = 0; v < width; v++)
            sum[r * width + v] = load_wide(patch + r * patch_line + v * WIDE_LANES);
    for (int64_t e = 0; e < count; e++) {
        const float *at = from + offsets[e];
        const wide g = all_wide(gradients[e]);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 6
            for (int v = 0; v < width; v++)
                sum[r * width + v] += g * load_wide(at + r * from_line + v * WIDE_LANES);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 6
        for (int v = 0; v < width; v++)
            store_wide(patch + r * patch_line + v * WIDE_LANES, sum[r * width + v]);
}

#define DEFINE_WIDE_PATCH(R, V)                                                                 \
    WIDE void wide_patch_##R##_##V(float *patch, int64_t patch_line, const float *from,         \
                                   int64_t from_line, const int32_t *offsets,                   \
                                   const float *gradients, int64_t count)                       \
    {                                                                                           \
        add_wide_patches(R, V, patch, patch_line, from, from_line, offsets, gradients, count);  \
    }
#define FOR_WIDE_PATCHES(DO)                                                                    \
    DO(1, 1) DO(2, 1) DO(3, 1) DO(4, 1) DO(5, 1) DO(6, 1) DO(7, 1) DO(8, 1) DO(1, 2) DO(2, 2)   \
    DO(3, 2) DO(4, 2) DO(5, 2) DO(6, 2) DO(7, 2) DO(8, 2) DO(1, 3) DO(2, 3) DO(3, 3) DO(4, 3)   \
    DO(5, 3) DO(6, 3) DO(1, 4) DO(2, 4) DO(3, 4) DO(4, 4) DO(5, 4) DO(1, 5) DO(2, 5) DO(3, 5)   \
    DO(4, 5) DO(1, 6) DO(2, 6) DO(3, 6)
FOR_WIDE_PATCHES(DEFINE_WIDE_PATCH)
#define NAME_WIDE_PATCH(R, V) [R][V] = wide_patch_##R##_##V,
static const PatchTable WIDE_PATCHES = {FOR_WIDE_PATCHES(NAME_WIDE_PATCH)};
#endif

/* How a kernel is cut into pieces that fit the registers. */
typedef struct {
    const PatchTable *patches;
    int64_t lanes;                 /* of a vector */
    int64_t rows, width;           /* of the kernel; the width counts vectors */
    int64_t most_rows, most_width; /* of a piece */
} Pieces;

/* The pieces of a kernel of `rows` x `row` values; `row` is a multiple of 8. */
static Pieces pieces_of(int64_t rows, int64_t row)
{
    Pieces p = {.patches = &PATCHES,
                .lanes = LANES,
                .rows = rows,
                .width = row / LANES,
                .most_rows = MOST_REGISTERS,
                .most_width = MOST_REGISTERS};
    int64_t registers = MOST_REGISTERS;
#if HAS_WIDE
    if (has_wide && row % WIDE_LANES == 0) {
        p.patches = &WIDE_PATCHES;
        p.lanes = WIDE_LANES;
        p.width = row / WIDE_LANES;
        p.most_rows = MOST_WIDE_ROWS;
        p.most_width = MOST_WIDE_VECTORS;
        registers = MOST_WIDE_REGISTERS;
    }
#endif
    if (p.most_width > p.width) p.most_width = p.width;
    if (p.most_rows > registers / p.most_width) p.most_rows = registers / p.most_width;
    return p;
}

/* Add gradient x patch for each entry of a list. */
INLINE void add_kernel(const Pieces *p, float *patch, int64_t patch_line, const float *from,
                       int64_t from_line, const int32_t *offsets, const float *gradients,
                       int64_t count)
{
    for (int64_t r = 0; r < p->rows; r += p->most_rows)
        for (int64_t v = 0; v < p->width; v += p->most_width) {
            const int64_t rows = p->rows - r < p->most_rows ? p->rows - r : p->most_rows;
            const int64_t width = p->width - v < p->most_width ? p->width - v : p->most_width;
            (*p->patches)[rows][width](patch + r * patch_line + v * p->lanes, patch_line,
                                       from + r * from_line + v * p->lanes, from_line, offsets,
                                       gradients, count);
        }
}

#endif
