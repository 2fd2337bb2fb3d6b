# cmake -DSOURCE=FOLDER -DOUTPUT=FILE -P embed.cmake: the parts of the page as string literals of C++.
set(code "#include \"tools/report/page.h\"\n\nnamespace fold8::report {\n\n")
foreach(part Html Css Js)
  string(TOLOWER "${part}" extension)
  file(READ "${SOURCE}/page.${extension}" text)
  string(APPEND code "const std::string_view kPage${part} = R\"fold8(${text})fold8\";\n\n")
endforeach()
file(WRITE "${OUTPUT}" "${code}}  // namespace fold8::report\n")
