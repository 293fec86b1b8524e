import type { DescribedTool } from '../../contract/tool-invoker.ts'
import type { JudgingSettings } from './ports.ts'

/** Who says that no judge needs to look at calls of the tool, if anybody does: the configuration before the tool itself. */
export function skipOf(
  { skip, always }: JudgingSettings,
  { name, skipJudge }: Pick<DescribedTool, 'name' | 'skipJudge'>,
): 'built-in' | 'configuration' | undefined {
  if (skip.includes(name)) return 'configuration'
  return skipJudge && !always.includes(name) ? 'built-in' : undefined
}
