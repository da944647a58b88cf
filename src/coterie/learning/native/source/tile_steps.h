/* Convolutions of 3 x 3 by transformed tiles, for vectors of one or of two windows.
 *
 * Included once for each: VECTOR is the type, WINDOWS how many windows it holds, NAME_OF() the
 * function's name, HERE its storage and target, and GATHER, PUT, READ, WRITE, ALL move values.
 */

/* Transform the inputs of four windows: (16, channel, window, lane). */
HERE void NAME_OF(tiles_of)(const Tiling *k, const float *const *at)
{
    const int64_t apart = apart_of(k->inputs * WINDOW * LANES);
    for (int t = 0; t < WINDOW; t += WINDOWS)
        for (int64_t c = 0; c < k->inputs; c++) {
            float *to = k->tiles + (c * WINDOW + t) * LANES;
            VECTOR columns[4][4], d[4];
#pragma GCC unroll 4
            for (int x = 0; x < 4; x++) {
                const int64_t from = (x * k->inputs + c) * LANES;
#pragma GCC unroll 4
                for (int y = 0; y < 4; y++) d[y] = GATHER(at, t, from + y * k->line);
                columns[x][0] = d[0] - d[2];
                columns[x][1] = d[1] + d[2];
                columns[x][2] = d[2] - d[1];
                columns[x][3] = d[1] - d[3];
            }
#pragma GCC unroll 4
            for (int y = 0; y < 4; y++) {
                WRITE(to + (4 * y + 0) * apart, columns[0][y] - columns[2][y]);
                WRITE(to + (4 * y + 1) * apart, columns[1][y] + columns[2][y]);
                WRITE(to + (4 * y + 2) * apart, columns[2][y] - columns[1][y]);
                WRITE(to + (4 * y + 3) * apart, columns[1][y] - columns[3][y]);
            }
        }
}

/* Sums over the input channels of some output channels at four windows. */
HERE_INLINE void NAME_OF(tile_sums)(const int outputs, const float *tiles, const float *kernels,
                                    int64_t inputs, float *to)
{
    const int64_t padded = rounded_up(inputs);
    VECTOR sum[WINDOW / WINDOWS][8];
#pragma GCC unroll 8
    for (int o = 0; o < outputs; o++)
#pragma GCC unroll 4
        for (int t = 0; t < WINDOW / WINDOWS; t++) sum[t][o] = ALL(0);
    for (int64_t c = 0; c < inputs; c++) {
        VECTOR x[WINDOW / WINDOWS];
#pragma GCC unroll 4
        for (int t = 0; t < WINDOW / WINDOWS; t++)
            x[t] = READ(tiles + (c * WINDOW + t * WINDOWS) * LANES);
#pragma GCC unroll 8
        for (int o = 0; o < outputs; o++) {
            const VECTOR weight = ALL(kernels[o * padded + c]);
#pragma GCC unroll 4
            for (int t = 0; t < WINDOW / WINDOWS; t++) sum[t][o] += x[t] * weight;
        }
    }
#pragma GCC unroll 8
    for (int o = 0; o < outputs; o++)
#pragma GCC unroll 4
        for (int t = 0; t < WINDOW / WINDOWS; t++)
            WRITE(to + (o * WINDOW + t * WINDOWS) * LANES, sum[t][o]);
}

HERE void NAME_OF(tile_block)(const float *tiles, const float *kernels, int64_t inputs, float *to)
{
    NAME_OF(tile_sums)(TILE_OUTPUTS, tiles, kernels, inputs, to);
}

HERE void NAME_OF(tile_single)(const float *tiles, const float *kernels, int64_t inputs, float *to)
{
    NAME_OF(tile_sums)(1, tiles, kernels, inputs, to);
}

/* All products of four windows: (16, output channel, window, lane). */
static void NAME_OF(tile_products)(const Tiling *k)
{
    const int64_t padded = rounded_up(k->inputs);
    for (int64_t i = 0; i < TILE; i++) {
        const float *tiles = k->tiles + i * apart_of(k->inputs * WINDOW * LANES);
        const float *kernels = k->kernels + i * apart_of(k->outputs * padded);
        float *to = k->products + i * apart_of(k->outputs * WINDOW * LANES);
        int64_t o = 0;
        for (; o + TILE_OUTPUTS <= k->outputs; o += TILE_OUTPUTS)
            NAME_OF(tile_block)(tiles, kernels + o * padded, k->inputs, to + o * WINDOW * LANES);
        for (; o < k->outputs; o++)
            NAME_OF(tile_single)(tiles, kernels + o * padded, k->inputs, to + o * WINDOW * LANES);
    }
}

/* The four values of an output channel at a window, or at two, from its products. */
HERE_INLINE void NAME_OF(tile_outputs)(const Tiling *k, int64_t o, int t, VECTOR four[WINDOW])
{
    const int64_t apart = apart_of(k->outputs * WINDOW * LANES);
    const float *from = k->products + (o * WINDOW + t) * LANES;
    const VECTOR bias = ALL(k->biases ? k->biases[o] : 0);
    VECTOR columns[4][2];
#pragma GCC unroll 4
    for (int x = 0; x < 4; x++) {
        const VECTOR m1 = READ(from + (4 + x) * apart), m2 = READ(from + (8 + x) * apart);
        columns[x][0] = READ(from + x * apart) + m1 + m2;
        columns[x][1] = m1 - m2 - READ(from + (12 + x) * apart);
    }
#pragma GCC unroll 2
    for (int y = 0; y < 2; y++) {
        four[2 * y] = columns[0][y] + columns[1][y] + columns[2][y] + bias;
        four[2 * y + 1] = columns[1][y] - columns[2][y] - columns[3][y] + bias;
    }
}

/* Store the values of four windows at `out`. */
HERE void NAME_OF(store_tiles)(const Tiling *k, float *const *out)
{
    for (int t = 0; t < WINDOW; t += WINDOWS)
        for (int64_t o = 0; o < k->outputs; o++) {
            VECTOR four[WINDOW];
            NAME_OF(tile_outputs)(k, o, t, four);
#pragma GCC unroll 4
            for (int i = 0; i < WINDOW; i++) {
                const int64_t to = i / 2 * k->out_line + (i % 2 * k->outputs + o) * LANES;
                PUT(k->relu ? LARGER(ALL(0), four[i]) : four[i], out, t, to);
            }
        }
}

/* Store the maxima of four windows at `out`, and which of the four values they were. */
HERE_INLINE void NAME_OF(tile_maxima)(const int train, const Tiling *k, float *const *out,
                                      uint8_t *const *place)
{
    for (int t = 0; t < WINDOW; t += WINDOWS)
        for (int64_t o = 0; o < k->outputs; o++) {
            VECTOR four[WINDOW];
            NAME_OF(tile_outputs)(k, o, t, four);
            PUT_MAXIMUM(train, k->relu, four, out, place, t, o * LANES);
        }
}

HERE void NAME_OF(store_maxima)(const Tiling *k, float *const *out)
{
    NAME_OF(tile_maxima)(0, k, out, NULL);
}

HERE void NAME_OF(store_trained_maxima)(const Tiling *k, float *const *out, uint8_t *const *place)
{
    NAME_OF(tile_maxima)(1, k, out, place);
}

/* Four windows with their inputs at `at`: all values to `out`; or, if pooled, the maxima and, in
 * training, their places. */
static void NAME_OF(tiled_windows)(const Tiling *k, const float *const *at, float *const *out,
                                   uint8_t *const *place)
{
    NAME_OF(tiles_of)(k, at);
    NAME_OF(tile_products)(k);
    if (!k->is_pooled) NAME_OF(store_tiles)(k, out);
    else if (place) NAME_OF(store_trained_maxima)(k, out, place);
    else NAME_OF(store_maxima)(k, out);
}
