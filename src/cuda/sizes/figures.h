// When another size of a program gets a kernel of its own, by estimates: chosen so that a stream of sizes compiles one
// or two; nobody knows more.
#pragma once

namespace transfuse::cuda::figures::sizes {

// How much slower a kernel may be, in proportion and in seconds.
struct Slack {
    double factor, seconds;
    bool exceeded(double slow, double fast) const { return slow > factor * fast && slow > fast + seconds; }
};
// A kernel of its own is worth its compilation, of a second or so, where it is estimated that much faster: the second
// of a structure, and any further one.
inline constexpr Slack second{1.35, 2e-6}, further{2.5, 10e-6};
// It then is made for sizes up to so many times as large, if the size at hand can bear it.
inline constexpr int largest = 4;
inline constexpr Slack bearable{1.5, 10e-6};
inline constexpr double full = 0.7;  // Offer::busy: below this another tile may be much better
inline constexpr int most_doubts = 3;

}  // namespace transfuse::cuda::figures::sizes
