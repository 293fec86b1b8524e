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
      'Whether uses are let through, with a warning, while the store cannot say what is left of a limit. Otherwise they are refused.',
    ),
    wait_ms: wholeNumber(
      10_000,
      0,
      600_000,
      'How long a request to a model waits for requests in progress to settle, before it is refused because they have reserved what is left.',
    ),
    default_output_tokens: wholeNumber(
      4_096,
      1,
      10_000_000,
      'Tokens of an answer for which money is reserved where the request names no bound. What it costs beyond that counts.',
    ),
  },
  'Limits on cost and calls (create_limit).',
)

export const sanitiserSection = group(
  { rounds: wholeNumber(5, 1, 20, 'Questions that are asked about one result, at most.') },
  'Results that a policy has sanitised: a model that does not see the result asks questions, and another answers by choosing. They are the aliases `dual-llm-main` and `dual-llm-quarantine`, or `default`.',
)

export const approvalsSection = group(
  {
    in_runs: z
      .enum(approvalsInRuns, rule(`one of ${approvalsInRuns.join(', ')}`))
      .default('wait')
      .describe(
        'What becomes of a call in a run that a person must approve: `wait` waits, also through restarts; `deny` denies the call at once; `fall_back` refuses it for now and the run goes on, and the same call can be made once it is approved.',
      ),
    open_hours: wholeNumber(
      24,
      1,
      8_760,
      'Hours for which a request can be answered. A run that waits takes that as a denial.',
    ),
    use_minutes: wholeNumber(60, 1, 43_200, 'Minutes within which a call can be made after it was approved, once.'),
    ask_client: flag(
      true,
      'Whether the person at an MCP client is asked at once, if the client offers that (elicitation) and the person may answer approvals.',
    ),
  },
  'Calls that a policy lets through only with the approval of a person (`require_approval`).',
)
