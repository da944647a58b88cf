/* Batch normalisation of one line of an image, for vectors of either width; see use_narrow.h.
 *
 * A few neighbouring features stay in registers for all positions of the line.
 */

/* The gradient of an output, zero where its ReLU is dead: the output is computed again, not read. */
HERE_INLINE VECTOR NAME_OF(live_gradient)(const int relu, VECTOR x, VECTOR scale, VECTOR shift,
                                          VECTOR g)
{
    return relu ? LIVE(x * scale + shift, g) : g;
}

/* Add to both sums of `count` vectors of features from `f` on; see sum_lines(). */
HERE_INLINE void NAME_OF(sum_features)(const int backward, const int relu, const int count,
                                       const Line *l, int64_t f)
{
    VECTOR one[FEATURE_BLOCK], two[FEATURE_BLOCK], mean[FEATURE_BLOCK];
    VECTOR scale[FEATURE_BLOCK], shift[FEATURE_BLOCK];
#pragma GCC unroll 4
    for (int v = 0; v < count; v++) {
        const int64_t at = f + v * NUM_LANES;
        one[v] = READ(l->spread.first + at);
        two[v] = READ(l->spread.second + at);
        mean[v] = READ(l->spread.means + at);
        if (relu) scale[v] = READ(l->spread.scale + at);
        if (relu) shift[v] = READ(l->spread.shift + at);
    }
    for (int64_t i = f; i < l->width * l->length; i += l->length)
#pragma GCC unroll 4
        for (int v = 0; v < count; v++) {
            const VECTOR x = READ(l->in + i + v * NUM_LANES), apart = x - mean[v];
            VECTOR first = apart;
            if (backward)
                first = NAME_OF(live_gradient)(relu, x, relu ? scale[v] : x, relu ? shift[v] : x,
                                               READ(l->gradient + i + v * NUM_LANES));
            one[v] += first;
            two[v] += first * apart;
        }
#pragma GCC unroll 4
    for (int v = 0; v < count; v++) {
        WRITE(l->spread.first + f + v * NUM_LANES, one[v]);
        WRITE(l->spread.second + f + v * NUM_LANES, two[v]);
    }
}

/* out = in x scale + shift. */
HERE_INLINE void NAME_OF(scale_features)(const int backward, const int relu, const int count,
                                         const Line *l, int64_t f)
{
    VECTOR scale[FEATURE_BLOCK], shift[FEATURE_BLOCK];
    (void)backward;
#pragma GCC unroll 4
    for (int v = 0; v < count; v++) {
        scale[v] = READ(l->spread.scale + f + v * NUM_LANES);
        shift[v] = READ(l->spread.shift + f + v * NUM_LANES);
    }
    for (int64_t i = f; i < l->width * l->length; i += l->length)
#pragma GCC unroll 4
        for (int v = 0; v < count; v++) {
            const VECTOR value = READ(l->in + i + v * NUM_LANES) * scale[v] + shift[v];
            WRITE(l->out + i + v * NUM_LANES, relu ? LARGER(ALL(0), value) : value);
        }
}

/* out = live gradient x first + (in x second + third). */
HERE_INLINE void NAME_OF(scale_gradients)(const int backward, const int relu, const int count,
                                          const Line *l, int64_t f)
{
    VECTOR one[FEATURE_BLOCK], two[FEATURE_BLOCK], three[FEATURE_BLOCK];
    VECTOR scale[FEATURE_BLOCK], shift[FEATURE_BLOCK];
    (void)backward;
#pragma GCC unroll 4
    for (int v = 0; v < count; v++) {
        const int64_t at = f + v * NUM_LANES;
        one[v] = READ(l->spread.first + at);
        two[v] = READ(l->spread.second + at);
        three[v] = READ(l->spread.means + at);
        if (relu) scale[v] = READ(l->spread.scale + at);
        if (relu) shift[v] = READ(l->spread.shift + at);
    }
    for (int64_t i = f; i < l->width * l->length; i += l->length)
#pragma GCC unroll 4
        for (int v = 0; v < count; v++) {
            const VECTOR x = READ(l->in + i + v * NUM_LANES);
            const VECTOR g = NAME_OF(live_gradient)(relu, x, relu ? scale[v] : x,
                                                    relu ? shift[v] : x,
                                                    READ(l->gradient + i + v * NUM_LANES));
            WRITE(l->out + i + v * NUM_LANES, g * one[v] + (x * two[v] + three[v]));
        }
}

/* All features of a line, in blocks; the last one may fill only half of a wide vector. */
#define DEFINE_LINE(NAME, DO, BACKWARD, RELU)                                                    \
    HERE void NAME_OF(NAME)(const Line *l)                                                       \
    {                                                                                            \
        int64_t f = 0;                                                                           \
        for (; f + FEATURE_BLOCK * NUM_LANES <= l->length; f += FEATURE_BLOCK * NUM_LANES)       \
            NAME_OF(DO)(BACKWARD, RELU, FEATURE_BLOCK, l, f);                                    \
        for (; f + NUM_LANES <= l->length; f += NUM_LANES)                                       \
            NAME_OF(DO)(BACKWARD, RELU, 1, l, f);                                                \
        if (f < l->length) DO##_narrow(BACKWARD, RELU, 1, l, f);                                 \
    }
DEFINE_LINE(sum_values, sum_features, 0, 0)
DEFINE_LINE(sum_gradients, sum_features, 1, 0)
DEFINE_LINE(sum_live_gradients, sum_features, 1, 1)
DEFINE_LINE(scale_line, scale_features, 0, 0)
DEFINE_LINE(scale_line_relu, scale_features, 0, 1)
DEFINE_LINE(gradient_line, scale_gradients, 1, 0)
DEFINE_LINE(live_gradient_line, scale_gradients, 1, 1)
#undef DEFINE_LINE
