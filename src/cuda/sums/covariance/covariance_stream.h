// How blocks of the covariance kernels pass over x, whatever they multiply with.
//
// A block has two blocks of channels, some lags, and a chunk of places: rows along h, columns along w. It passes over
// the planes of d, column of planes by column. Planes come to shared memory one after another, with the places a lag
// away and zeros for what lies outside x, each while the one before is multiplied.
#pragma once

#include "cuda/sums/covariance/covariance_parts.h"

namespace transfuse::cuda {

class CovarianceStream : public CovarianceParts {
protected:
    using CovarianceParts::CovarianceParts;

    // Sums of a tile are [lag][channel a][channel b], then each channel alone.
    void divide(int64_t channel_block, int64_t most_lags);
    // The planes in shared memory for chunks of rows and columns; fragments: tensor cores read them.
    void stage(int64_t rows, int64_t columns, bool fragments = false);
    // Work of a column of planes in a segment of d.
    double column_work(int64_t deep_segment) const;
    int64_t values() const override { return sums_ + channel_block_; }
    void write_slot(Body& body) const override;

    virtual int64_t threads() const = 0;
    virtual int64_t most_early() const = 0;  // numbers of a plane that a thread's registers hold
    // Of a number less its channel's mean, what is staged.
    virtual std::string staged(const std::string& number) const { return number; }
    // Multiplies the plane of which all partners are staged, the last in `slot`; its rows begin at own_h, its columns
    // at own_w.
    virtual void write_products(KernelText& kernel) = 0;
    // Whether they ask where a plane's column lies: own_n, own_h, own_w.
    virtual bool products_read_places() const { return false; }
    // Takes the sums to the block's slot; adds them to what is there if `again`.
    virtual void write_finish(KernelText& kernel) = 0;

    // The tables, what the block's number means, what its part has to do: [at, end) of the steps.
    void write_block(KernelText& kernel) const;
    // All steps. most_terms: of a sum before it is taken to the slot; 0: no matter how many.
    void write_steps(KernelText& kernel, int64_t most_terms);
    // Where in the ring the plane `ahead` of the one that is multiplied begins.
    std::string plane_at(const std::string& ahead) const;
    // ahead, below, right: the number `lag` along d, h and w.
    void write_lag(Body& body) const;
    // x of both sides' channel c, as the kernel counts them.
    std::string own_channel(const std::string& c) const;
    std::string inside(KernelText& k, const std::string& d, const std::string& h, const std::string& w) const;
    // Assigns n, h and w of `column`.
    void write_column(Body& body, const std::string& n, const std::string& h, const std::string& w) const;
    int64_t ring_numbers() const { return ring_ * plane_; }  // in shared memory: tf_ring
    int64_t coming_numbers() const;                          // tf_coming
    int64_t place_numbers() const;                           // tf_places: integers
    bool in_memory() const;                                  // x lies there, in reach of 32 bits
    std::string element() const;                             // what a plane brings, and the means are
    std::string wide(const std::string& number) const;       // one of these, to compute with
    bool copyable() const;
    bool counted() const {
        return staged_rows_ < 128 && both() < 256 && staged_columns_ < 1 << 16;
    }                                                         // as tf_places counts
    static std::string staging_code(int64_t floats);          // shared memory as tf_tiles, copies into it
    int64_t both() const { return sides_ * channel_block_; }  // channels of a plane
    std::string tile() const;

    int64_t channel_block_ = 1, channel_blocks_ = 1, lags_ = 1, lag_groups_ = 1, first_lag_ = 0, last_lag_ = 0,
            sums_ = 1;
    int64_t rows_ = 1, chunk_ = 1;  // of a block's places: along h, along w
    int64_t rows_before_ = 0, columns_before_ = 0;
    int64_t staged_rows_ = 1, staged_columns_ = 1;  // of a plane in shared memory: [row][channel][column]
    int64_t sides_ = 1, plane_ = 1, ring_ = 1,
            reach_ = 0;    // blocks of channels, numbers of a plane, planes, lags along d
    bool copies_ = false;  // planes come by copies, several ahead

private:
    struct Cursor;
    void write_cursors(Body& body) const;
    void write_locate(Body& body, const Cursor& cursor) const;
    void write_advance(Body& body, const Cursor& cursor) const;
    void write_means(KernelText& kernel) const;
    void write_places(KernelText& kernel) const;
    void write_place(Body& body, const std::string& first) const;
    void write_plane_met(KernelText& kernel) const;
    std::string offset(KernelText& kernel, const Index& index) const;
    void write_load(KernelText& kernel, const std::string& first, int64_t batch) const;
    void write_store(KernelText& kernel, const std::string& first, int64_t batch) const;
    void write_corner(KernelText& kernel) const;
    void write_copies(KernelText& kernel, const std::string& stage) const;
    void write_copied(KernelText& kernel) const;
    int64_t numbers() const;  // of a plane, that a thread brings
};

}  // namespace transfuse::cuda
