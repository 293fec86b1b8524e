import { existsSync } from 'node:fs'
import { join, relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** The files that take longest. Begun last, one of them would keep one worker busy while the others have nothing left. */
const longest: readonly string[] = [
  'test/properties/tenancy.test.ts',
  'test/e2e/config-effects.test.ts',
  'test/e2e/guides.test.ts',
  'test/stores/migrations.test.ts',
  'test/backends/images.test.ts',
  'test/e2e/clients.test.ts',
  'test/e2e/cli-serve.test.ts',
  'test/e2e/cli-image.test.ts',
  'test/workspaces/named-hosts.test.ts',
  'test/e2e/mcp-servers.test.ts',
  'test/properties/hidden-things.test.ts',
  'test/faults/sweep.test.ts',
  'test/e2e/guide-people.test.ts',
  'test/backends/namespaces.test.ts',
  'test/e2e/workflows.test.ts',
  'test/e2e/revoked-open.test.ts',
  'test/backends/escape.test.ts',
  'test/pipeline/rights.test.ts',
  'test/faults/supervisor-death.test.ts',
  'test/e2e/people.test.ts',
  'test/e2e/client-recordings.test.ts',
  'test/faults/workspace-two-servers.test.ts',
  'test/faults/supervisor-start.test.ts',
  'src/supervisor/network/network-hub.test.ts',
  'test/e2e/early-list.test.ts',
  'test/e2e/gateway-tasks.test.ts',
  'test/e2e/sdk-every-tool.test.ts',
  'test/e2e/browser-pages.test.ts',
  'test/faults/workflow-death.test.ts',
  'test/e2e/intents.test.ts',
  'test/workspaces/swarm-merge.test.ts',
  'test/conformance/conformance.test.ts',
  'test/workflows/parallel-volumes.test.ts',
  'test/e2e/removed-teams.test.ts',
  'test/e2e/start-faults.test.ts',
  'src/supervisor/images/build-image.test.ts',
  'test/workflows/persistent-volumes.test.ts',
  'test/e2e/gateway-processes.test.ts',
  'test/e2e/login.test.ts',
  'test/faults/full-disk.test.ts',
  'test/e2e/ownership.test.ts',
  'test/e2e/oidc.test.ts',
  'test/e2e/cli.test.ts',
  'src/domains/git/merge.test.ts',
  'test/workspaces/swarm-crash.test.ts',
  'test/e2e/gateway-oauth.test.ts',
  'test/agent-tools/web.test.ts',
  'src/domains/mcp-servers/change-follower.test.ts',
  'test/faults/workspace-kill.test.ts',
  'src/mcp/http-sessions.test.ts',
  'test/e2e/schedules.test.ts',
  'test/e2e/removed-directory.test.ts',
  'test/workspaces/snapshots.test.ts',
  'test/e2e/executions.test.ts',
  'test/governance/local-mcp-servers.test.ts',
  'test/e2e/pages.test.ts',
]

/**
 * By project, as the configuration has them: a worker is used again only while the next file is one of its own project. In each, those
 * named first, then as Vitest has it: by what they took the last time, or by size.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { root } = this.ctx.config
    const gone = longest.filter((file) => !existsSync(join(root, file)))
    if (gone.length > 0) throw new Error(`test/support/longest-first.ts names files that are not there: ${gone.join()}`)
    const rankOf = ({ moduleId, project }: TestSpecification): number => {
      const rank = longest.indexOf(relative(root, moduleId))
      return this.ctx.projects.indexOf(project) * 1_000 + (rank < 0 ? longest.length : rank)
    }
    return (await super.sort(files)).sort((a, b) => rankOf(a) - rankOf(b))
  }
}
