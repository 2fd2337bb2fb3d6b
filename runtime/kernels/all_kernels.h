// The contracts of all kernels: one header each, with the equation.
#pragma once
