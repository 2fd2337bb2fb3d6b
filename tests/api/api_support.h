// Writes the models that the tests of the installed interface load. Keeps fold8's inner headers
// away from those of the API.
#pragma once

#include <string>

namespace fold8::testing {

// Parses a graph in text form and writes it as a .f8 file into a temporary folder; returns the
// path.
std::string write_model(const std::string& text);

}  // namespace fold8::testing
