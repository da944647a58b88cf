/* Lists of the values of one sample that carry a gradient, with offsets for what they are added to. */
#ifndef COTERIE_LISTS_H
#define COTERIE_LISTS_H

#include "convolution.h"

/* For eight channels, list the positions with a gradient, `room` entries for each channel; return
 * the sums of their gradients. */
INLINE vec list_positions(Network *n, const Step *s, const uint8_t *window, int64_t channel,
                          int64_t room, int64_t counts[LANES])
{
    const int64_t channels = s->out.channels, positions = s->out.height * s->out.width;
    int32_t offset[WINDOW];
    window_offsets(s, offset);
    const ints right = all_ints(offset[1]), down = all_ints(offset[2]);
    vec sum = all(0);
    for (int c = 0; c < LANES; c++) counts[c] = 0;
    for (int64_t p = 0; p < positions; p += LANES) {
        const int64_t at = p * channels + channel;
        uint8_t places[LANES * LANES];
        vec row[LANES], gradient[LANES];
        for (int i = 0; i < LANES; i++) row[i] = load(n->live + at + i * channels);
        for (int i = 0; i < LANES; i++) sum += row[i];
        transpose(row, gradient);
        if (s->is.pool == 2) transpose_bytes(window + at, channels, places, LANES);
        for (int c = 0; c < LANES; c++) {
            ints offsets = load_ints(s->bases + p);
            if (s->is.pool == 2) {
                const ints place = load_bytes(places + c * LANES);
                offsets += (-(place & 1) & right) + (-(place >> 1) & down);
            }
            counts[c] += compress((ints)(gradient[c] != all(0)), gradient[c], offsets,
                                  n->list_values + c * room + counts[c],
                                  n->list_offsets + c * room + counts[c]);
        }
    }
    return sum;
}

/* For one position and each place in its window, list the channels whose maximum was there and has
 * a gradient, `room` entries for each place. */
INLINE void list_channels(Network *n, const Step *s, const uint8_t *window, int64_t position,
                          int64_t room, int64_t counts[WINDOW])
{
    const int64_t channels = s->out.channels, at = position * channels;
    const int32_t next = (int32_t)(s->is.kernel[0] * s->padded_row);
    const ints lane = {0, 1, 2, 3, 4, 5, 6, 7};
    const int num_places = s->is.pool == 2 ? WINDOW : 1;
    for (int d = 0; d < WINDOW; d++) counts[d] = 0;
    for (int64_t o = 0; o < channels; o += LANES) {
        const vec g = load(n->live + at + o);
        const ints live = (ints)(g != all(0)) & (lane < all_ints((int32_t)(channels - o)));
        const ints weights = (lane + all_ints((int32_t)o)) * next;
        ints place = all_ints(0);
        if (num_places > 1) place = load_bytes(window + at + o);
        for (int d = 0; d < num_places; d++)
            counts[d] += compress(live & (place == all_ints(d)), g, weights,
                                  n->list_values + d * room + counts[d],
                                  n->list_offsets + d * room + counts[d]);
    }
}

#if HAS_WIDE
/* compress() for 16 values: up to 16 places after the last one written are overwritten. */
WIDE_INLINE int compress_wide(__mmask16 mask, __m512 values, __m512i offsets, float *to_values,
                              int32_t *to_offsets)
{
    _mm512_storeu_ps(to_values, _mm512_maskz_compress_ps(mask, values));
    _mm512_storeu_si512(to_offsets, _mm512_maskz_compress_epi32(mask, offsets));
    return __builtin_popcount(mask);
}

/* list_positions(), 16 of them at a time. */
WIDE vec wide_list_positions(Network *n, const Step *s, const uint8_t *window, int64_t channel,
                             int64_t room, int64_t counts[LANES])
{
    const int64_t channels = s->out.channels, positions = s->out.height * s->out.width;
    int32_t offset[WINDOW];
    window_offsets(s, offset);
    const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)offset));
    vec sum = all(0);
    for (int c = 0; c < LANES; c++) counts[c] = 0;
    for (int64_t p = 0; p < positions; p += WIDE_LANES) {
        const float *low = n->live + p * channels + channel, *high = low + LANES * channels;
        const uint8_t *from = window + p * channels + channel;
        const __m512i bases = _mm512_loadu_si512(s->bases + p);
        uint8_t places[LANES * WIDE_LANES];
        wide row[LANES], gradient[LANES];
        for (int i = 0; i < LANES; i++) sum += load(low + i * channels);
        for (int i = 0; i < LANES; i++) sum += load(high + i * channels);
        for (int i = 0; i < LANES; i++) row[i] = join(low + i * channels, high + i * channels);
        transpose_halves(row, gradient);
        if (s->is.pool == 2) {
            transpose_bytes(from, channels, places, WIDE_LANES);
            transpose_bytes(from + LANES * channels, channels, places + LANES, WIDE_LANES);
        }
        for (int c = 0; c < LANES; c++) {
            const __m512 g = (__m512)gradient[c];
            const __mmask16 live = _mm512_cmp_ps_mask(g, _mm512_setzero_ps(), _CMP_NEQ_UQ);
            __m512i offsets = bases;
            if (s->is.pool == 2) {
                const __m512i place = _mm512_cvtepu8_epi32(
                    _mm_loadu_si128((const __m128i *)(places + c * WIDE_LANES)));
                offsets = _mm512_add_epi32(bases, _mm512_permutexvar_epi32(place, table));
            }
            counts[c] += compress_wide(live, g, offsets, n->list_values + c * room + counts[c],
                                       n->list_offsets + c * room + counts[c]);
        }
    }
    return sum;
}

/* list_channels(), 16 of them at a time. */
WIDE void wide_list_channels(Network *n, const Step *s, const uint8_t *window, int64_t position,
                             int64_t room, int64_t counts[WINDOW])
{
    const int64_t channels = s->out.channels, at = position * channels;
    const __m512i next = _mm512_set1_epi32((int32_t)(s->is.kernel[0] * s->padded_row));
    const __m512i lane =
        _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const int num_places = s->is.pool == 2 ? WINDOW : 1;
    for (int d = 0; d < WINDOW; d++) counts[d] = 0;
    for (int64_t o = 0; o < channels; o += WIDE_LANES) {
        const __m512 g = (__m512)load_wide(n->live + at + o);
        const __m512i channel = _mm512_add_epi32(lane, _mm512_set1_epi32((int32_t)o));
        const __m512i weights = _mm512_mullo_epi32(channel, next);
        const __mmask16 live =
            _mm512_cmp_ps_mask(g, _mm512_setzero_ps(), _CMP_NEQ_UQ) &
            _mm512_cmplt_epi32_mask(channel, _mm512_set1_epi32((int32_t)channels));
        __m512i place = _mm512_setzero_si512();
        if (num_places > 1)
            place = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(window + at + o)));
        for (int d = 0; d < num_places; d++)
            counts[d] += compress_wide(live & _mm512_cmpeq_epi32_mask(place, _mm512_set1_epi32(d)),
                                       g, weights, n->list_values + d * room + counts[d],
                                       n->list_offsets + d * room + counts[d]);
    }
}
#endif

static vec lists_of_positions(Network *n, const Step *s, const uint8_t *window, int64_t channel,
                              int64_t room, int64_t counts[LANES])
{
#if HAS_WIDE
    if (has_wide) return wide_list_positions(n, s, window, channel, room, counts);
#endif
    return list_positions(n, s, window, channel, room, counts);
}

static void lists_of_channels(Network *n, const Step *s, const uint8_t *window, int64_t position,
                              int64_t room, int64_t counts[WINDOW])
{
#if HAS_WIDE
    if (has_wide) {
        wide_list_channels(n, s, window, position, room, counts);
        return;
    }
#endif
    list_channels(n, s, window, position, room, counts);
}

#endif
