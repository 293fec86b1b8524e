import type { DescribedTool } from '../../contract/tool-invoker.ts'
import type { JudgingSettings } from './ports.ts'

/**
 * Whether calls of the tool skip the judge, and who decided that: the configuration takes precedence over the tool definition.
 */
export function skipOf(
  { skip, always }: JudgingSettings,
  { name, skipJudge }: Pick<DescribedTool, 'name' | 'skipJudge'>,
): 'built-in' | 'configuration' | undefined {
  if (skip.includes(name)) return 'configuration'
  return skipJudge && !always.includes(name) ? 'built-in' : undefined
}
