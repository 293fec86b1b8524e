import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { InvocationVerdict, PolicyTool } from '../../contract/tool-policies.ts'
import type { Invocation } from './stages.ts'

export type KnownTool = PolicyTool & Readonly<{ id: string }>

/** The answer to one call that a policy denies: which policy, why, and what would be allowed. */
export function denied({ input }: Invocation, { name }: PolicyTool, verdict: InvocationVerdict): AppError {
  const { policy, reason, becauseUntrusted, specificity } = verdict
  const isBuiltIn = specificity === 'built-in'
  const by = isBuiltIn || policy === undefined ? 'by a rule of this server' : `by the policy ${policy}`
  const allowed = isBuiltIn
    ? BY_A_PERSON
    : becauseUntrusted
      ? 'The same call in a context that has read nothing untrusted; a person can look at this one with context_trust_get and clear it with context_trust_clear.'
      : specificity === 'conditions'
        ? 'A call with arguments that the policy does not match; get_tool_invocation_policy shows its conditions.'
        : 'No call of this tool, unless a policy with conditions allows it.'
  const said = `'${name}' is denied ${by}. Reason: ${reason}.`
  const next = isBuiltIn ? BY_A_PERSON : becauseUntrusted ? AFTER_UNTRUSTED : 'Continue without this call.'
  return new AppError('ERR_POLICY_DENIED', `${said} ${next}`, {
    tool: name,
    ...(policy !== undefined && { policy }),
    reason,
    context: becauseUntrusted ? 'untrusted' : 'any',
    allowed,
    archestraError: {
      type: 'policy_denied',
      message: said,
      toolName: name,
      ...(isSmall(input) && { input: input as Record<string, unknown> }),
      reason,
      reasonType: becauseUntrusted ? 'sensitive_context' : 'generic',
    },
  } as ConstructorParameters<typeof AppError>[2])
}

const AFTER_UNTRUSTED =
  'This context has read untrusted data: context_trust_get shows where, and a person clears it with context_trust_clear. Continue without this call.'
const BY_A_PERSON =
  'Tell the person to make this call: with castellan call, or signed in at the web address of the server.'

const isSmall = (input: unknown): boolean => (JSON.stringify(input)?.length ?? 0) <= limits.deniedInputBytesMax
