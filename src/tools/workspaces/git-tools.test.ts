import { describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { fingerprint, prepareForks } from '../../../test/support/git-merge.ts'
import { type GitLab, gitCall } from '../../../test/support/git-service.ts'
import type { ToolContext, ToolDefinition } from '../runtime/define-tool.ts'
import gitCommit from './git-commit.ts'
import gitDiff from './git-diff.ts'
import gitPush from './git-push.ts'
import gitStatus from './git-status.ts'
import workspaceMerge from './workspace-merge.ts'

/** Runs a tool as the pipeline does: parses the input, and checks the output against its schema. */
async function use<Input extends z.ZodType, Output extends z.ZodType>(
  lab: GitLab,
  tool: ToolDefinition<Input, Output>,
  args: object,
): Promise<z.output<Output>> {
  const call = gitCall()
  const context = { git: lab.service, call, principal: call.principal } as unknown as ToolContext
  return tool.output!.parse(await tool.run(tool.input.parse(args), context))
}

describe('the git tools', () => {
  it('answer what their definitions promise', async () => {
    const lab = await prepareForks('fork', 'clash')
    const at = { workspace_id: 'fork', path: '/workspace' }
    await lab.write('fork', 'other.txt', 'fork\n')
    expect(await use(lab, gitStatus, { workspace_id: 'fork' })).toMatchObject({ modified: ['other.txt'], dirty: true })
    expect(await use(lab, gitDiff, { ...at, stat: true })).toMatchObject({ truncated: false })
    expect(await use(lab, gitCommit, { ...at, message: 'm' })).toMatchObject({ status: 'committed' })
    expect(await use(lab, gitCommit, { ...at, message: 'm' })).toMatchObject({ status: 'nothing_to_commit' })
    await lab.git('remote', 'init', '--quiet', '--bare')
    await lab.git('fork', 'remote', 'add', 'origin', await lab.folder('remote'))
    expect(await use(lab, gitPush, at)).toMatchObject({ remote: 'origin', branch: 'main', success: true })
    await lab.commitFiles('clash', 'clash', { 'other.txt': 'clash\n' })
    await lab.write('clash', 'left.txt', 'l\n')
    const merge = { source_workspaces: ['fork', 'clash', 'nowhere'], target_workspace: 'target' }
    for (const strategy of ['branch-per-source', 'sequential', 'cherry-pick']) {
      expect(await use(lab, workspaceMerge, { ...merge, strategy })).toMatchObject({
        success: false,
        merged_sources: ['fork'],
        conflicts: [
          { source_id: 'clash', files: ['other.txt'] },
          { source_id: 'nowhere', files: [] },
        ],
      })
    }
    expect((await fingerprint(lab))['status']).toBe('')
  })

  it.each([
    [gitDiff, { workspace_id: 'x', path: '/x', max_bytes: 0 }],
    [gitCommit, { workspace_id: 'x', path: '/x', message: '' }],
    [workspaceMerge, { source_workspaces: [], target_workspace: 'x', strategy: 'sequential' }],
    [workspaceMerge, { source_workspaces: ['y'], target_workspace: 'x', strategy: 'octopus' }],
    [gitStatus, { workspace_id: 'x', options: '--help' }],
  ])('refuse what is out of bounds', (tool, args) => {
    expect(tool.input.safeParse(args).success).toBe(false)
  })
})
