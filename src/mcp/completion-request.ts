import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'

type Values = Readonly<Record<string, string>>

type Completion = Readonly<{
  ref: Readonly<{ type: 'ref/prompt'; name: string } | { type: 'ref/resource'; uri: string }>
  argument: Readonly<{ name: string; value: string }>
  context?: Readonly<{ arguments?: Values | undefined }> | undefined
}>

/** The tool that would send the same, with what is known of its arguments so far, and what is sent. */
type CompletionRequest = Readonly<{
  judged: Readonly<
    | { tool: 'get_mcp_prompt'; args: Readonly<{ name: string; arguments: Values }> }
    | { tool: 'read_mcp_resource'; args: Readonly<{ uri: string }> }
  >
  sent: Completion
}>

/** A request for a completion. No value is sent that is not in what is judged. */
export function completionRequest({ ref, argument, context }: Completion): CompletionRequest {
  const names = ref.type === 'ref/prompt' ? undefined : variablesOf(ref.uri)
  if (names?.has(argument.name) === false) throw noVariable()
  // Of two values of the argument, only one could be judged.
  const others = Object.entries(context?.arguments ?? {}).filter(
    ([name]) => name !== argument.name && names?.has(name) !== false,
  )
  const known = Object.fromEntries([...others, [argument.name, argument.value]])
  const sent = { ref, argument, ...(context && { context: { arguments: Object.fromEntries(others) } }) }
  if (ref.type === 'ref/prompt')
    return { judged: { tool: 'get_mcp_prompt', args: { name: ref.name, arguments: known } }, sent }
  return { judged: { tool: 'read_mcp_resource', args: { uri: filledIn(ref.uri, known) } }, sent }
}

/** An expression of a URI template (RFC 6570): its operator, and its variables. */
const EXPRESSION = /\{([+#./;?&]?)([^{}]*)\}/g
const namesIn = (variables: string): string[] =>
  variables.split(',').map((variable) => variable.replace(/(?:\*|:\d+)$/, ''))

const variablesOf = (template: string): ReadonlySet<string> =>
  new Set([...template.matchAll(EXPRESSION)].flatMap(([, , variables = '']) => namesIn(variables)))

/** The values as they are, so that conditions see all of them. What is not known stays. */
function filledIn(template: string, known: Values): string {
  return template.replaceAll(EXPRESSION, (expression, operator: string, variables: string) => {
    const names = namesIn(variables)
    if (!names.some((name) => Object.hasOwn(known, name))) return expression
    const isNamed = /[;?&]/.test(operator)
    const values = names.map((name) => {
      const value = Object.hasOwn(known, name) ? known[name] : `{${name}}`
      return isNamed ? `${name}=${value}` : value
    })
    const separator = operator === '?' ? '&' : /[./;&]/.test(operator) ? operator : ','
    return `${operator === '+' ? '' : operator}${values.join(separator)}`
  })
}

const noVariable = (): ProtocolError =>
  new ProtocolError(
    ProtocolErrorCode.InvalidParams,
    'argument: the template of the resource has no variable of this name',
  )
