// The parts of the page: page.html, page.css and page.js of this folder, embedded by CMake.
#pragma once

#include <string_view>

namespace fold8::report {

// With the marks /*STYLE*/, /*SCRIPT*/ and /*DATA*/, once each, in this order or another.
extern const std::string_view kPageHtml, kPageCss, kPageJs;

}  // namespace fold8::report
