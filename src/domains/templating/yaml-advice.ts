import type { ErrorCode } from 'yaml'

/** Advice for common mistakes. The library's own messages quote the text, so they are not passed on. */
const advice: Readonly<Partial<Record<ErrorCode | 'TOO_MANY_EMPTY_LINES', string>>> = {
  BAD_ALIAS: 'an alias (*name) is not allowed here; put a value that begins with "*" in quotes',
  BAD_DIRECTIVE: 'a line begins with %, which only directives do; put the text in quotes',
  BAD_DQ_ESCAPE: 'a string in double quotes has an invalid escape; write \\\\ or use single quotes',
  BAD_INDENT: 'a line is not indented like its neighbours, or a quote or bracket is not closed',
  BAD_SCALAR_START: 'a value begins with a character that must be in quotes, such as @, ` or %',
  BLOCK_AS_IMPLICIT_KEY: 'correct the indentation, or put a value that contains ": " in quotes',
  BLOCK_IN_FLOW: 'inside brackets or braces a string cannot begin with | or >; put it in quotes',
  DUPLICATE_KEY: 'a field occurs twice',
  MISSING_CHAR: 'something is missing: a closing quote, bracket or brace, a comma, or a space after a colon',
  MULTILINE_IMPLICIT_KEY: 'the name of a field runs over several lines, or a colon is missing after it',
  MULTIPLE_DOCS: 'it holds several documents; give one',
  NON_STRING_KEY: 'the name of a field is not a string; put it in quotes',
  TAB_AS_INDENT: 'indent with spaces, not with a tab',
  TAG_RESOLVE_FAILED: 'a tag (!…) is not accepted; put a value that begins with "!" in quotes',
  TOO_MANY_EMPTY_LINES: 'too many empty lines or comments follow each other; remove some',
  UNEXPECTED_TOKEN: 'something unexpected is here: check the indentation, and look for an extra bracket or quote',
}

/** Advice for a problem of `composeYaml`; its code if there is none. */
export const yamlAdvice = (code: string): string => (advice as Readonly<Record<string, string>>)[code] ?? code
