// Writes the text of one pull kernel: its stages one after another, the jobs of a stage side by side.
#pragma once

#include "cuda/general/pull/job.h"

namespace transfuse::cuda {

class PullWriter {
public:
    PullWriter(const PullRequest& request, const Places& kept, bool wide_index)
        : request_(request), graph_(request.graph), kept_(kept), parameters_(wide_index, request.target.any_size) {}

    Launch write(const std::vector<std::vector<const Job*>>& stages, int serial);

private:
    static constexpr int threads = 256;

    // How a job's elements are spread over threads.
    struct Shape {
        int vector = 1;
        int outputs = threads;      // of one block
        int slices = 1;             // threads that share an output
        std::vector<size_t> order;  // of the root's axes, outermost first
    };

    int64_t write_stage(const std::vector<const Job*>& jobs);
    void write_job(const Job& job, const std::string& block);
    int64_t blocks_of(const Job& job);
    Shape shape_of(const Job& job, const Places& places) const;
    const Places& places_of(const Job& job);
    bool vectorises(ValueId v, const Places& places, int depth = 0) const;

    // A thread an element.
    void element_job(const Job& job, const Shape& shape, const Places& places, const std::string& block);
    int element_vector(const Job& job, const std::vector<size_t>& order, const Places& places) const;
    Index decompose(Emitter& emitter, ValueId id, const std::string& linear, const std::vector<size_t>& order,
                    int vector);
    void store(Emitter& emitter, const Place& place, const Index& index, const Lanes& lanes, int vector);

    // A group of threads an element: they share the terms of a fold.
    void group_job(const Job& job, const Shape& shape, const Places& places, const std::string& block);
    void finish_job(const Job& job, const Shape& shape, const Places& places, const std::string& block);
    int fold_vector(const Job& job, const Places& places) const;
    void write_terms(Emitter& emitter, const Fold& fold, const Emitter::Accumulator& accumulator,
                     const std::string& slice, const Shape& shape, const Job& job, const std::string& split,
                     int vector);
    bool lies_in_slots(ValueId fold, const Places& places) const;
    void add_slots(Emitter& emitter, const Fold& fold, const Emitter::Accumulator& accumulator,
                   const std::string& slice, const Shape& shape);
    void combine(Emitter& emitter, const std::vector<Emitter::Accumulator>& accumulators, const std::string& lane,
                 const std::string& slice, const Shape& shape);

    const PullRequest& request_;
    const Graph& graph_;
    const Places& kept_;
    Parameters parameters_;
    Body body_;
    Places places_;
    ValueId made_ = -1;  // by the job that asked last
    std::string tables_, notes_, code_;
    int64_t shared_doubles_ = 0;
};

}  // namespace transfuse::cuda
