import { existsSync } from 'node:fs'
import { join, relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** The files that take longest. Begun last, one of them would keep one worker busy while the others have nothing left. */
const longest: readonly string[] = [
  'test/e2e/config-effects.test.ts',
  'test/properties/tenancy.test.ts',
  'test/e2e/guides.test.ts',
  'test/backends/images.test.ts',
  'test/e2e/cli-image.test.ts',
  'test/faults/sweep.test.ts',
  'test/e2e/clients.test.ts',
  'test/backends/namespaces.test.ts',
  'test/e2e/cli-serve.test.ts',
  'test/e2e/workflows.test.ts',
  'test/workspaces/named-hosts.test.ts',
  'test/e2e/mcp-servers.test.ts',
  'test/e2e/gateway-tasks.test.ts',
  'test/e2e/revoked-open.test.ts',
  'test/e2e/people.test.ts',
  'test/stores/migrations.test.ts',
  'test/pipeline/rights.test.ts',
  'test/backends/escape.test.ts',
  'test/e2e/client-recordings.test.ts',
  'test/e2e/guide-people.test.ts',
  'test/faults/supervisor-start.test.ts',
  'src/supervisor/network/network-hub.test.ts',
  'test/e2e/intents.test.ts',
  'test/e2e/sdk-every-tool.test.ts',
  'src/domains/git/merge.test.ts',
  'test/faults/workflow-death.test.ts',
  'test/e2e/browser-pages.test.ts',
  'test/faults/supervisor-death.test.ts',
  'test/faults/workspace-two-servers.test.ts',
  'test/e2e/early-list.test.ts',
  'test/conformance/conformance.test.ts',
  'test/workspaces/swarm-merge.test.ts',
  'test/faults/full-disk.test.ts',
  'test/faults/workspace-kill.test.ts',
  'test/e2e/guide-agents.test.ts',
  'src/domains/git/merge-cases.test.ts',
  'test/e2e/schedules.test.ts',
  'test/e2e/guide-workflows.test.ts',
  'test/e2e/executions.test.ts',
  'src/mcp/http-sessions.test.ts',
  'test/faults/execution-death.test.ts',
  'test/e2e/cli.test.ts',
  'test/teams/recovery.test.ts',
  'test/properties/fuzz.test.ts',
  'test/workspaces/traffic.test.ts',
  'test/agent-tools/web.test.ts',
  'test/e2e/package.test.ts',
]

/** Those named first, then as Vitest has it: by what they took the last time, or by size. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { root } = this.ctx.config
    const gone = longest.filter((file) => !existsSync(join(root, file)))
    if (gone.length > 0) throw new Error(`test/support/longest-first.ts names files that are not there: ${gone.join()}`)
    const rankOf = ({ moduleId, project }: TestSpecification): number => {
      const rank = longest.indexOf(relative(root, moduleId))
      return project.config.sequence.groupOrder * 1_000 + (rank < 0 ? longest.length : rank)
    }
    return (await super.sort(files)).sort((a, b) => rankOf(a) - rankOf(b))
  }
}
