R"cuda(
// Σ exp(x) as exp(pivot)·s, the pivot being the largest x so far (0 in place of -inf; inf makes s a nan).
template <class R> TF_FUNCTION R tf_pivot(R m) { return m == (R)__int_as_float(0xff800000) ? (R)0 : m; }
template <class R> TF_FUNCTION void tf_merge_logsumexp(R& m, R& s, R m2, R s2) {
    R top = tf_max(m, m2), pivot = tf_pivot(top);
    s = (s == (R)0 ? s : s * tf_exp(tf_pivot(m) - pivot)) + (s2 == (R)0 ? s2 : s2 * tf_exp(tf_pivot(m2) - pivot));
    m = top;
}
template <class R> TF_FUNCTION void tf_add_logsumexp(R& m, R& s, R x) {
    R top = tf_max(m, x), pivot = tf_pivot(top);
    s = (s == (R)0 ? s : s * tf_exp(tf_pivot(m) - pivot)) + tf_exp(x - pivot);
    m = top;
}
)cuda"
