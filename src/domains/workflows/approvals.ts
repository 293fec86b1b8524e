import { APPROVAL_WAIT } from '../../contract/approvals.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { administers } from '../../contract/permissions.ts'
import { identityOf } from '../../contract/principal.ts'
import type { Engine, Run, RunFilter } from '../../engine/ports.ts'
import { answeredQuestions, questionOf } from './questions.ts'

type Reading = Pick<Call, 'principal' | 'read' | 'readsFrom'>
/** The questions of runs that wait for a person. An approval has the id of its run, because a run asks one question at a time. */
export function createApprovals({ engine }: Readonly<{ engine: Engine }>) {
  async function view(call: Reading, run: Run) {
    call.readsFrom?.(`execution:${run.rootId}`)
    return {
      id: run.id,
      workflow_id: run.subjectId,
      workflow_name: run.subjectName,
      ...(await questionOf(engine, call.read, run)),
    }
  }

  const filterFor = ({ principal }: Reading): Omit<RunFilter, 'limit'> => ({
    kind: 'workflow',
    status: 'running',
    ...(administers(principal, 'execution') ? {} : { owner: identityOf(principal) }),
  })

  async function runOf({ principal, read }: Reading, id: string): Promise<Run | undefined> {
    const run = await engine.find(read, principal.tenant, id.toLowerCase())
    const isVisible = administers(principal, 'execution') || run?.owner === identityOf(principal)
    return isVisible && run?.kind === 'workflow' ? run : undefined
  }

  return {
    /** Of the newest runs, the newest run first, or of one run. */
    async listAnswered(call: Reading, input: Readonly<{ limit: number; execution_id?: string | undefined }>) {
      const { status: _, ...filter } = filterFor(call)
      const runs =
        input.execution_id === undefined
          ? await engine.list(call.read, call.principal.tenant, { ...filter, limit: limits.answeredLookedAtMax })
          : [(await runOf(call, input.execution_id)) ?? []].flat()
      const approvals = []
      for (const run of runs) {
        if (approvals.length >= input.limit) break
        const answered = await answeredQuestions(engine, call.read, run)
        if (answered.length > 0) call.readsFrom?.(`execution:${run.rootId}`)
        const of = { id: run.id, workflow_id: run.subjectId, workflow_name: run.subjectName }
        approvals.push(...answered.map((question) => ({ ...of, ...question })))
      }
      return { approvals: approvals.slice(0, input.limit) }
    },

    /** Newest first. With `execution_id`, only that run's; none unless it waits. */
    async list(call: Reading, input: Readonly<{ limit: number; execution_id?: string | undefined }>) {
      const { principal, read } = call
      if (input.execution_id !== undefined) {
        const run = await runOf(call, input.execution_id)
        return { approvals: run !== undefined && asksPerson(run) ? [await view(call, run)] : [] }
      }
      const waiting: Run[] = []
      for (let offset = 0; waiting.length < input.limit && offset < limits.approvalsLookedAtMax; ) {
        const page = await engine.list(read, principal.tenant, {
          ...filterFor(call),
          limit: limits.runListMax,
          offset,
        })
        waiting.push(...page.filter(asksPerson))
        if (page.length < limits.runListMax) break
        offset += page.length
      }
      const approvals = []
      for (const run of waiting.slice(0, input.limit)) approvals.push(await view(call, run))
      return { approvals }
    },
  }
}

/** A call that waits for an approval has a record of its own. */
const asksPerson = ({ waitingFor }: Run): boolean => waitingFor !== null && !waitingFor.startsWith(APPROVAL_WAIT)
