#include "cuda/sums/moments/moments.h"

#include "cuda/sums/moments/moments_rows.h"
#include "cuda/sums/moments/moments_writer.h"

namespace transfuse::cuda {

namespace {

// By rows where that serves, else by cells; null with a sentence in `why_not` where neither does.
std::shared_ptr<BoxSumsWriter> writer_of(const Surroundings& surroundings, const Places& places, ValueId box,
                                         int64_t scratch, const std::string& entry, std::string* why_not) {
    auto rows = std::make_shared<RowSumsWriter>(surroundings, places, box, scratch, entry);
    if (rows->arrange()) return rows;
    auto cells = std::make_shared<MomentsWriter>(surroundings, places, box, scratch, entry);
    return cells->arrange(why_not) ? cells : nullptr;
}

}  // namespace

std::optional<Offer> offer_moments(const Surroundings& surroundings, const Places& places,
                                   const std::vector<std::pair<ValueId, Place>>& stores, std::string* why_not) {
    std::vector<std::shared_ptr<BoxSumsWriter>> writers;
    int64_t scratch = 0;
    for (const TileStep& step : surroundings.pass.steps) {
        if (surroundings.plan.graph[step.value].op != Op::box_sums || step.scope == Scope::tail) continue;
        const std::string entry = "tf_moments" + std::to_string(writers.size());
        auto writer = writer_of(surroundings, places, step.value, scratch, entry, why_not);
        if (!writer) return std::nullopt;
        for (const auto& [value, place] : stores)
            if (value == step.value) writer->store_to(place);
        scratch = (scratch + writer->scratch_bytes() + 255) / 256 * 256;
        writers.push_back(std::move(writer));
    }
    return Offer{.write = [writers, scratch] {
        FamilyProgram result;
        Words& note = result.program.note;
        for (const auto& writer : writers) {
            if (writer->stores()) result.stored.push_back(writer->box());
            result.program.launches.push_back(writer->write());
            result.places.emplace(writer->box(), writer->place());
            note = note.str() + (note.empty() ? "" : "; ") + result.program.launches.back().note.str();
        }
        result.program.scratch_bytes = static_cast<size_t>(scratch);
        return result;
    }};
}

}  // namespace transfuse::cuda
