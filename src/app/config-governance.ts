import { z } from 'zod'
import { approvalsInRuns } from '../contract/approvals.ts'
import { flag, group, rule, wholeNumber } from './config-parts.ts'

const zoneRule = rule('a time zone such as Europe/Rome or UTC')

function isTimeZone(zone: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone })
    return true
  } catch {
    return false
  }
}

export const limitsSection = group(
  {
    time_zone: z
      .string(zoneRule)
      .refine(isTimeZone, zoneRule)
      .default('UTC')
      .describe('Time zone in which the days, weeks and months of limits begin.'),
    fail_open: flag(
      false,
      'What happens while the store cannot report the remaining amount of a limit: `true` allows the use with a warning, `false` refuses it.',
    ),
    wait_ms: wholeNumber(
      60_000,
      0,
      600_000,
      'How long a model request waits if requests in progress have reserved the rest of a limit. After that it is refused with 429, and may be sent again.',
    ),
    default_output_tokens: wholeNumber(
      4_096,
      1,
      10_000_000,
      'Answer tokens for which money must be left if the request sets no maximum. The longest answer of the model is reserved, or what is left. The real cost is counted, even if it is higher.',
    ),
  },
  'Limits on cost and calls (create_limit).',
)

export const sanitiserSection = group(
  { rounds: wholeNumber(5, 1, 20, 'Maximum number of questions about one result.') },
  'Results that a policy has sanitised. One model, which does not see the result, asks questions; another answers by choosing an option. Their aliases are `dual-llm-main` and `dual-llm-quarantine`, or else `default`.',
)

export const approvalsSection = group(
  {
    in_runs: z
      .enum(approvalsInRuns, rule(`one of ${approvalsInRuns.join(', ')}`))
      .default('wait')
      .describe(
        'What happens if a call in a run needs approval. `wait`: the run waits, also across restarts. `deny`: the call is denied at once. `fall_back`: the call is refused, the run continues, and it can repeat the call once the call is approved.',
      ),
    open_hours: wholeNumber(
      24,
      1,
      8_760,
      'Hours after which a request expires. For a run that waits, an expired request counts as denied.',
    ),
    use_minutes: wholeNumber(60, 1, 43_200, 'Minutes for which an approval is valid. It allows the call once.'),
    four_eyes: flag(
      false,
      'Whether a person other than the requester must answer. This applies to calls and Human states, and also at the command line.',
    ),
    ask_client: flag(
      true,
      'Whether to ask the person at an MCP client at once, if the client supports elicitation and the person may answer approvals.',
    ),
  },
  'Calls that a policy allows only with the approval of a person (`require_approval`).',
)
