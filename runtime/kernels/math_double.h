// double functions of fold8's own, for convert-time tables and numbers and for the rare f32
// functions: the same bits on every machine, since they use only + - * / sqrt fma and bit
// operations (a libm may differ from the next one). Accuracy: 1 to 4 ulp (erf: 8.5; pow: 16 where
// the result nears the ends of the range), special values as C99 Annex F. Not for hot loops.
#pragma once

namespace fold8::kernels {

double exp_f64(double x);
double log_f64(double x);
double log1p_f64(double x);
double log2_f64(double x);
double log10_f64(double x);
double pow_f64(double x, double y);
double sin_f64(double x);
double cos_f64(double x);
double tan_f64(double x);
double asin_f64(double x);
double acos_f64(double x);
double atan_f64(double x);
double sinh_f64(double x);
double cosh_f64(double x);
double tanh_f64(double x);
double asinh_f64(double x);
double acosh_f64(double x);
double atanh_f64(double x);
double erf_f64(double x);

}  // namespace fold8::kernels
