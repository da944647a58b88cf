/* The gradient of tiled kernels, for vectors of either width; see use_narrow.h. */

/* Transform the inputs of one window: (16, entry, channel). */
HERE_INLINE void NAME_OF(input_tile)(const TileSums *k, const float *from, float *to)
{
    for (int64_t c = 0; c < k->padded_inputs; c += NUM_LANES) {
        VECTOR columns[4][4], d[4];
#pragma GCC unroll 4
        for (int x = 0; x < 4; x++) {
#pragma GCC unroll 4
            for (int y = 0; y < 4; y++) d[y] = READ(from + y * k->line + x * k->inputs + c);
            columns[x][0] = d[0] - d[2];
            columns[x][1] = d[1] + d[2];
            columns[x][2] = d[2] - d[1];
            columns[x][3] = d[1] - d[3];
        }
#pragma GCC unroll 4
        for (int y = 0; y < 4; y++) {
            float *at = to + 4 * y * k->input_apart + c;
            WRITE(at, columns[0][y] - columns[2][y]);
            WRITE(at + k->input_apart, columns[1][y] + columns[2][y]);
            WRITE(at + 2 * k->input_apart, columns[2][y] - columns[1][y]);
            WRITE(at + 3 * k->input_apart, columns[1][y] - columns[3][y]);
        }
    }
}

/* Transform the gradients of the four outputs of one window: (16, entry, output). */
HERE_INLINE void NAME_OF(gradient_tile)(const TileSums *k, const float *from, float *to)
{
    for (int64_t o = 0; o < k->padded_outputs; o += NUM_LANES) {
        VECTOR columns[2][4];
#pragma GCC unroll 2
        for (int x = 0; x < 2; x++) {
            const VECTOR up = READ(from + x * k->outputs + o);
            const VECTOR down = READ(from + k->gradient_line + x * k->outputs + o);
            columns[x][0] = up;
            columns[x][1] = up + down;
            columns[x][2] = up - down;
            columns[x][3] = -down;
        }
#pragma GCC unroll 4
        for (int y = 0; y < 4; y++) {
            float *at = to + 4 * y * k->gradient_apart + o;
            WRITE(at, columns[0][y]);
            WRITE(at + k->gradient_apart, columns[0][y] + columns[1][y]);
            WRITE(at + 2 * k->gradient_apart, columns[0][y] - columns[1][y]);
            WRITE(at + 3 * k->gradient_apart, -columns[1][y]);
        }
    }
}

HERE void NAME_OF(transform_entries)(const TileSums *k, const float *const *in,
                                     const float *const *gradient, int64_t count)
{
    for (int64_t e = 0; e < count; e++) {
        NAME_OF(input_tile)(k, in[e], k->tiles + e * k->padded_inputs);
        NAME_OF(gradient_tile)(k, gradient[e], k->gradients + e * k->padded_outputs);
    }
}

/* Add the products of some entries to the sums of SUM_OUTPUTS outputs and `width` vectors. */
HERE_INLINE void NAME_OF(add_tile_products)(const int width, const TileSums *k, const float *x,
                                            const float *gradient, int64_t count, float *to)
{
    VECTOR sum[SUM_OUTPUTS * SUM_VECTORS];
#pragma GCC unroll 8
    for (int o = 0; o < SUM_OUTPUTS; o++)
#pragma GCC unroll 3
        for (int v = 0; v < width; v++)
            sum[o * width + v] = READ(to + o * k->padded_inputs + v * NUM_LANES);
    for (int64_t e = 0; e < count; e++) {
        VECTOR at[SUM_VECTORS];
#pragma GCC unroll 3
        for (int v = 0; v < width; v++) at[v] = READ(x + e * k->padded_inputs + v * NUM_LANES);
#pragma GCC unroll 8
        for (int o = 0; o < SUM_OUTPUTS; o++) {
            const VECTOR g = ALL(gradient[e * k->padded_outputs + o]);
#pragma GCC unroll 3
            for (int v = 0; v < width; v++) sum[o * width + v] += g * at[v];
        }
    }
#pragma GCC unroll 8
    for (int o = 0; o < SUM_OUTPUTS; o++)
#pragma GCC unroll 3
        for (int v = 0; v < width; v++)
            WRITE(to + o * k->padded_inputs + v * NUM_LANES, sum[o * width + v]);
}

#define DEFINE_TILE_PRODUCTS(WIDTH, NAME)                                                        \
    HERE void NAME(const TileSums *k, const float *x, const float *gradient, int64_t count,      \
                   float *to)                                                                    \
    {                                                                                            \
        NAME_OF(add_tile_products)(WIDTH, k, x, gradient, count, to);                            \
    }
DEFINE_TILE_PRODUCTS(1, NAME_OF(tile_products_1))
DEFINE_TILE_PRODUCTS(2, NAME_OF(tile_products_2))
DEFINE_TILE_PRODUCTS(3, NAME_OF(tile_products_3))
#undef DEFINE_TILE_PRODUCTS

/* Add the products of `count` transformed entries to all sums. */
static void NAME_OF(sum_entries)(const TileSums *k, int64_t count)
{
    const int64_t vectors = k->padded_inputs / NUM_LANES;
    for (int i = 0; i < TILE; i++)
        for (int64_t o = 0; o < k->padded_outputs; o += SUM_OUTPUTS)
            for (int64_t v = 0; v < vectors; v += SUM_VECTORS) {
                const float *x = k->tiles + i * k->input_apart + v * NUM_LANES;
                const float *gradient = k->gradients + i * k->gradient_apart + o;
                float *to = k->sums + (i * k->padded_outputs + o) * k->padded_inputs +
                            v * NUM_LANES;
                if (vectors - v == 1) NAME_OF(tile_products_1)(k, x, gradient, count, to);
                else if (vectors - v == 2) NAME_OF(tile_products_2)(k, x, gradient, count, to);
                else NAME_OF(tile_products_3)(k, x, gradient, count, to);
            }
}
