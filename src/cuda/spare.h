// Memory of objects that are made and dropped again and again, one after another: each thread keeps what it gave back.
#pragma once

#include <cstddef>
#include <new>

namespace transfuse::cuda {

// A class that derives from Spare<itself>, and from which none derives, is made in such memory.
template <class Made>
class Spare {
public:
    static void* operator new(size_t bytes) {
        List& list = spare();
        if (!list.first) return ::operator new(bytes);
        Link* const taken = list.first;
        list.first = taken->next;
        return taken;
    }
    static void operator delete(void* memory) {
        List& list = spare();
        list.first = new (memory) Link{list.first};
    }

protected:
    Spare() = default;
    ~Spare() = default;

private:
    struct Link {
        Link* next;
    };
    struct List {
        Link* first = nullptr;
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

}  // namespace transfuse::cuda
