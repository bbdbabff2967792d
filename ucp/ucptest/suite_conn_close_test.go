package ucptest

var connCloseCases, vanishCases, connManyCases []testCase
