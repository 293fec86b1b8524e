import { z } from 'zod'
import { anyJson } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { recoverCall } from '../runtime/search/recover-call.ts'

export default defineTool({
  name: 'run_tool',
  toolset: 'meta',
  title: 'Run a tool',
  description:
    'Call any tool by its exact name, also one that is not in your list. Find names and parameters with search_tools. Permissions and limits are those of the tool that runs.',
  permission: null,
  tier: 'user',
  effect: 'external',
  harmless: true,
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    tool_name: z.string().min(1).max(512).describe('Name of the tool, as search_tools gives it.'),
    tool_args: z.record(z.string().max(256), anyJson).optional().describe("The tool's arguments, as one object."),
  }),
  redirect: recoverCall,
  run: () => {
    throw new Error('run_tool hands its call on before it would run')
  },
})
