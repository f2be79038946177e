// Memory of objects that are made and dropped again and again, one after another: each thread keeps what it gave back.
#pragma once

#include <cstddef>
#include <new>
#include <utility>
#include <vector>

namespace transfuse::cuda {

// A class that derives from Spare<itself>, and from which none derives, is made in such memory.
template <class Made>
class Spare {
public:
    static void* operator new(size_t bytes) {
        List& list = spare();
        if (!list.first) return ::operator new(bytes);
        Link* const taken = list.first;
        list.first = taken->next, --list.length;
        return taken;
    }
    static void operator delete(void* memory) {
        List& list = spare();
        if (list.length == most_spare) return ::operator delete(memory);  // others made them, and make new ones
        list.first = new (memory) Link{list.first}, ++list.length;
    }
    static constexpr size_t most_spare = 4096;
    static size_t spares() { return spare().length; }  // of this thread

protected:
    Spare() = default;
    ~Spare() = default;

private:
    struct Link {
        Link* next;
    };
    struct List {
        Link* first = nullptr;
        size_t length = 0;
        ~List() {
            while (first) {
                Link* const next = first->next;
                ::operator delete(first);
                first = next;
            }
        }
    };
    static List& spare() {
        thread_local List list;
        return list;
    }
};

// Lists of one element a value, which every plan makes again: each thread keeps the memory of the last of a type.
template <class T>
std::vector<T>& spare_list() {
    thread_local std::vector<T> list;
    return list;
}
template <class T>
std::vector<T> list_of(size_t count) {
    std::vector<T> list = std::exchange(spare_list<T>(), {});
    list.resize(count);
    return list;
}
template <class T>
void give_back(std::vector<T>& list) {
    list.clear();
    spare_list<T>() = std::exchange(list, {});
}

}  // namespace transfuse::cuda
