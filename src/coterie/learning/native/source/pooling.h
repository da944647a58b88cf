/* Operations without parameters that are not fused with another: pooling, ReLU, dropout. */
#ifndef COTERIE_POOLING_H
#define COTERIE_POOLING_H

#include "network.h"

typedef struct {
    int64_t top, bottom, left, right, size;
} Window;

/* The part of a pooling window that lies inside the input; its whole size counts padding too. */
INLINE Window window_at(const Step *s, int64_t y, int64_t x)
{
    const Operation *is = &s->is;
    const int64_t top = y * is->stride[0] - is->padding[0], left = x * is->stride[1] - is->padding[1];
    const int64_t bottom = top + is->kernel[0], right = left + is->kernel[1];
    Window w = {.top = top < 0 ? 0 : top,
                .left = left < 0 ? 0 : left,
                .bottom = bottom < s->in.height ? bottom : s->in.height,
                .right = right < s->in.width ? right : s->in.width};
    w.size = is->count_padding ? (int64_t)is->kernel[0] * is->kernel[1]
                               : (w.bottom - w.top) * (w.right - w.left);
    return w;
}

static void max_pool_forward(const Step *s)
{
    const int64_t channels = s->in.channels;
    int32_t *place = s->place;
    for (int64_t y = 0; y < s->out.height; y++)
        for (int64_t x = 0; x < s->out.width; x++) {
            const Window w = window_at(s, y, x);
            float *out = s->out.value + place_of(&s->out, y, x) * LANES;
            for (int64_t c = 0; c < channels; c++, place += LANES) {
                int64_t at = place_of(&s->in, w.top, w.left) + c;
                vec best = load(s->in.value + at * LANES);
                ints where = all_ints((int32_t)at);
                for (int64_t i = w.top; i < w.bottom; i++)
                    for (int64_t j = w.left; j < w.right; j++) {
                        at = place_of(&s->in, i, j) + c;
                        const vec now = load(s->in.value + at * LANES);
                        const ints better = (ints)(now > best) | (ints)(now != now);
                        where = choose_ints(better, all_ints((int32_t)at), where);
                        best = choose(better, now, best);
                    }
                store(out + c * LANES, best);
                store_ints(place, where);
            }
        }
}

static void max_pool_backward(const Step *s)
{
    const int64_t count = s->out.width * s->in.channels;
    const int32_t *place = s->place;
    memset(s->in.gradient, 0, sizeof(float) * (size_t)(num_values(&s->in) * LANES));
    for (int64_t y = 0; y < s->out.height; y++) {
        const float *g = s->out.gradient + place_of(&s->out, y, 0) * LANES;
        for (int64_t i = 0; i < count; i++, place += LANES, g += LANES)
            for (int b = 0; b < LANES; b++) s->in.gradient[(int64_t)place[b] * LANES + b] += g[b];
    }
}

static void average_pool(const Step *s, int backward)
{
    const int64_t channels = s->in.channels;
    if (backward)
        memset(s->in.gradient, 0, sizeof(float) * (size_t)(num_values(&s->in) * LANES));
    for (int64_t y = 0; y < s->out.height; y++)
        for (int64_t x = 0; x < s->out.width; x++) {
            const Window w = window_at(s, y, x);
            const vec share = all(1.0f / (float)w.size);
            const int64_t to = place_of(&s->out, y, x);
            for (int64_t c = 0; c < channels; c++) {
                const vec g = load(s->out.gradient + (to + c) * LANES) * share;
                vec sum = all(0);
                for (int64_t i = w.top; i < w.bottom; i++)
                    for (int64_t j = w.left; j < w.right; j++) {
                        const int64_t at = (place_of(&s->in, i, j) + c) * LANES;
                        if (backward) store(s->in.gradient + at, load(s->in.gradient + at) + g);
                        else sum += load(s->in.value + at);
                    }
                if (!backward) store(s->out.value + (to + c) * LANES, sum * share);
            }
        }
}

static void relu_forward(const Step *s)
{
    const int64_t count = s->in.width * s->in.channels;
    for (int64_t y = 0; y < s->in.height; y++) {
        const float *in = s->in.value + place_of(&s->in, y, 0) * LANES;
        float *out = s->out.value + place_of(&s->out, y, 0) * LANES;
        for (int64_t i = 0; i < count * LANES; i += LANES)
            store(out + i, larger(all(0), load(in + i)));
    }
}

static void relu_backward(const Step *s)
{
    const int64_t count = s->in.width * s->in.channels;
    for (int64_t y = 0; y < s->in.height; y++) {
        const int64_t in = place_of(&s->in, y, 0) * LANES, out = place_of(&s->out, y, 0) * LANES;
        for (int64_t i = 0; i < count * LANES; i += LANES) {
            const ints dead = (ints)(load(s->out.value + out + i) <= all(0));
            store(s->in.gradient + in + i,
                  choose(dead, all(0), load(s->out.gradient + out + i)));
        }
    }
}

/* A random number from a key and a counter alone (splitmix64): no state, no order of calls. */
INLINE uint64_t mixed(uint64_t key, uint64_t counter)
{
    uint64_t z = key + (counter + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Draw which values are kept, each with chance 1 - rate; whole channels alike at all positions. */
static void dropout_draw(const Step *s)
{
    const int64_t channels = s->in.channels * LANES;
    const int64_t count = s->in.height * s->in.width * channels;
    const int64_t drawn = s->is.whole_channels ? channels : count;
    const uint64_t threshold = (uint64_t)(s->is.rate * 4294967296.0);
    int32_t *kept = s->place;
    for (int64_t i = 0; i < drawn; i += 2) {
        const uint64_t bits = mixed(s->stream, (uint64_t)i / 2);
        kept[i] = (bits & 0xFFFFFFFFu) >= threshold ? -1 : 0;
        kept[i + 1] = (bits >> 32) >= threshold ? -1 : 0;
    }
    for (int64_t i = drawn; i < count; i += channels)
        memcpy(kept + i, kept, sizeof(int32_t) * (size_t)channels);
}

/* Scale what is kept by 1 / (1 - rate); the mask is kept for the backward pass. */
static void dropout_forward(const Step *s, int train)
{
    const int64_t count = s->in.width * s->in.channels;
    const vec scale = all(s->is.rate < 1 ? 1 / (1 - s->is.rate) : 0);
    const int32_t *kept = s->place;
    if (train) dropout_draw(s);
    for (int64_t y = 0; y < s->in.height; y++) {
        const float *in = s->in.value + place_of(&s->in, y, 0) * LANES;
        float *out = s->out.value + place_of(&s->out, y, 0) * LANES;
        if (!train) {
            memcpy(out, in, sizeof(float) * (size_t)(count * LANES));
            continue;
        }
        for (int64_t i = 0; i < count * LANES; i += LANES, kept += LANES)
            store(out + i, choose(load_ints(kept), load(in + i) * scale, all(0)));
    }
}

static void dropout_backward(const Step *s)
{
    const int64_t count = s->in.width * s->in.channels;
    const vec scale = all(s->is.rate < 1 ? 1 / (1 - s->is.rate) : 0);
    const int32_t *kept = s->place;
    for (int64_t y = 0; y < s->in.height; y++) {
        const int64_t in = place_of(&s->in, y, 0) * LANES, out = place_of(&s->out, y, 0) * LANES;
        for (int64_t i = 0; i < count * LANES; i += LANES, kept += LANES)
            store(s->in.gradient + in + i,
                  choose(load_ints(kept), load(s->out.gradient + out + i) * scale, all(0)));
    }
}

#endif
