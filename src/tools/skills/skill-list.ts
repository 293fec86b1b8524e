import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'skill_list',
  toolset: 'ledger',
  title: 'List skills',
  description: 'List the skills found as .agents/skills/*/SKILL.md, with what their front matter says.',
  permission: 'skill:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    search: z.string().max(200).optional().describe('Text that the name or the description contains.'),
    capability: z.string().max(200).optional().describe('A capability that the skill declares.'),
  }),
  output: z.strictObject({
    skills: z.array(
      z.strictObject({
        name: z.string(),
        version: z.string(),
        description: z.string(),
        capabilities: z.array(z.string()),
        path: z.string(),
      }),
    ),
    total_count: z.int(),
  }),
  run: (input, { skills }) => skills.list(input),
})
