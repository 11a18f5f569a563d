// A library that has nothing of what is looked for.
