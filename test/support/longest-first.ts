import { existsSync } from 'node:fs'
import { join, relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** The files that take longest. Begun last, one of them would keep one worker busy while the others have nothing left. */
const longest: readonly string[] = [
  'test/properties/tenancy.test.ts',
  'test/e2e/config-effects.test.ts',
  'test/e2e/guides.test.ts',
  'test/e2e/cli-image.test.ts',
  'test/faults/sweep.test.ts',
  'test/backends/images.test.ts',
  'test/backends/namespaces.test.ts',
  'test/backends/escape.test.ts',
  'test/backends/hostile-workspaces.test.ts',
  'test/workspaces/named-hosts.test.ts',
  'test/workspaces/exec.test.ts',
  'test/workspaces/prepare.test.ts',
  'test/faults/supervisor-start.test.ts',
  'test/faults/workspace-two-servers.test.ts',
  'test/faults/workflow-death.test.ts',
  'test/faults/workspace-kill.test.ts',
  'test/e2e/revoked-open.test.ts',
  'test/e2e/clients.test.ts',
  'test/e2e/guide-people.test.ts',
  'test/e2e/workflows.test.ts',
  'test/e2e/browser-pages.test.ts',
  'test/e2e/people.test.ts',
  'test/pipeline/rights.test.ts',
  'test/stores/migrations.test.ts',
  'test/e2e/sdk-every-tool.test.ts',
  'test/conformance/conformance.test.ts',
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
