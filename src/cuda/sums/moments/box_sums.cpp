#include "cuda/sums/moments/box_sums.h"

namespace transfuse::cuda {

std::string BoxSumsWriter::lies_in(const Interval& interval, const std::string& i) {
    std::string test = i + " >= " + integer(interval.lo) + " && " + i + " <= " + integer(interval.hi);
    if (interval.step > 1)
        test += " && (" + i + " - " + integer(interval.lo) + ") % " + integer(interval.step) + " == 0";
    return test;
}

void BoxSumsWriter::declare_cells(bool masks) {
    std::vector<int64_t> table;
    for (const auto& list : cells_)
        for (const Cell& cell : list) {
            table.insert(table.end(), {cell.lo, cell.hi, cell.step});
            if (masks) table.push_back(cell.mask);
        }
    body_->line({"__shared__ int tf_cells[", number(static_cast<int64_t>(table.size())), "];"});
    body_->open("if (threadIdx.x == 0)");
    for (size_t at = 0; at < table.size(); ++at)
        body_->line({"tf_cells[", number(static_cast<int64_t>(at)), "] = ", integer(table[at]), ";"});
    body_->close();
}

Lanes BoxSumsWriter::load_direct(const std::string& pointer, const std::string& at) {
    const std::string storage(storage_name(storage_)), real(real_name(real_));
    Lanes lanes;
    lanes.real = real_;
    if (vector_ == 1) {
        lanes.text.push_back(emitter_->let(real, {"tf_load<", real, ">(", pointer, " + ", at, ")"}, "v"));
        return lanes;
    }
    const std::string type = "tf_vector<" + storage + ", " + number(vector_) + ">";
    pack_ = emitter_->let(type, {"*(const ", type, "*)(", pointer, " + ", at, ")"}, "pack");
    for (int l = 0; l < vector_; ++l)
        lanes.text.push_back("tf_to<" + real + ">(" + pack_ + ".lane[" + number(l) + "])");
    return lanes;
}

BoxSumsWriter::CellText BoxSumsWriter::whole_cell(const std::string& lo, const std::string& hi, const std::string& step,
                                                  std::string_view prefix) {
    return {lo, step, let({"(", hi, " - ", lo, ") / ", step, " + 1"}, prefix)};
}

BoxSumsWriter::CellText BoxSumsWriter::cut_cell(const std::string& lo, const std::string& hi, const std::string& step,
                                                const std::string& begin, const std::string& end,
                                                std::string_view prefix) {
    if (step == "1") {
        const std::string first = let({"max(", lo, ", ", begin, ")"}, "first");
        return {first, step, let({"max(min(", hi, ", ", end, " - 1) - ", first, " + 1, 0)"}, prefix)};
    }
    const std::string next = lo + " + (" + begin + " - " + lo + " + " + step + " - 1) / " + step + " * " + step;
    const std::string first = let({begin, " <= ", lo, " ? ", lo, " : ", next}, "first");
    const std::string last = let({"min(", hi, ", ", end, " - 1)"}, "last");
    return {first, step, let({last, " < ", first, " ? 0 : (", last, " - ", first, ") / ", step, " + 1"}, prefix)};
}

std::vector<std::string> BoxSumsWriter::row_of_cell(const std::vector<CellText>& cell, const std::string& row) {
    std::vector<std::string> index(cell.size());
    std::string rest = row;
    for (size_t i = cell.size(); i-- > 0;) {
        std::string own = rest;
        if (i > 0) {
            const std::string q = let({rest, " / ", cell[i].count}, "q");
            own = let({rest, " - ", q, " * ", cell[i].count}, "r");
            rest = q;
        }
        index[i] = let(plus(cell[i].first, times(own, cell[i].step)), "i");
    }
    return index;
}

}  // namespace transfuse::cuda
