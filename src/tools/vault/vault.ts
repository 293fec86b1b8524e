import { defineTool } from '../runtime/define-tool.ts'
import { vaultInput } from './vault-input.ts'
import { vaultOutput } from './vault-output.ts'

export default defineTool({
  name: 'vault',
  toolset: 'vault',
  trust: { carries: { as: 'note', fields: ['path', 'new_path', 'paths'] } },
  title: 'Use the vault of notes',
  description:
    'Read, write and search a knowledge base of Markdown notes that outlives this conversation and that people open with Obsidian. Choose an action: read, batch_read, search, list and stats look; write, replace, frontmatter and tags change a note; move and delete change where it is. For work to be done and tracked use task_create instead.',
  permission: 'vault:update',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'default',
  actions: {
    read: { permission: 'vault:read', effect: 'read' },
    batch_read: { permission: 'vault:read', effect: 'read' },
    search: { permission: 'vault:read', effect: 'read' },
    list: { permission: 'vault:read', effect: 'read' },
    stats: { permission: 'vault:read', effect: 'read' },
    delete: { whenDiskFull: true },
  },
  skipJudge: false,
  input: vaultInput,
  output: vaultOutput,
  run: (input, { vault, call }) => vault.act(call, input),
})
