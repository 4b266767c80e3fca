"""Properties of the library as a whole: each of these suites is about a promise that no single module keeps alone."""
