import { openContender, roundsOf, type Section, warmUp } from '../bench-context.ts'
import { fillTasks, taskListBody } from '../calls.ts'
import { type Connection, callTool } from '../client.ts'
import { comparisonNote, interleave } from '../interleave.ts'
import { standIn } from '../launch.ts'
import { rateText } from '../table.ts'

const tasks = 10_000

const checkList = async (connection: Connection): Promise<void> => {
  const list = await callTool(connection, 'task_list', { limit: 50 })
  if (list['returned_count'] !== 50 || list['total_count'] !== tasks) {
    throw new Error(`task_list gave ${list['returned_count']} of ${list['total_count']}, expected 50 of ${tasks}`)
  }
}

export const taskList: Section = {
  name: 'task_list',
  timeNeededMs: (quick) => (quick ? 16_000 : 35_000),
  async run(bench) {
    const open: Connection[] = []
    try {
      for (const contender of [bench.subject, standIn]) {
        const connection = await openContender(bench, contender)
        open.push(connection)
        await fillTasks(connection, tasks)
        await checkList(connection)
      }
      const [ours, peer] = open.map((connection) => ({ connection, body: taskListBody }))
      if (ours === undefined || peer === undefined) return
      for (const inFlight of [1, 16]) {
        for (const { connection, body } of [ours, peer]) await warmUp(connection, { inFlight, body }, bench.quick)
        const [compared] = await interleave(ours, [peer], { inFlight, ...roundsOf(bench) })
        if (compared === undefined) continue
        bench.report({
          what: 'task_list, 50 of 10 000',
          inFlight,
          ours: rateText(compared.ours.perSecond),
          peer: `stand-in ${rateText(compared.peer.perSecond)}`,
          ratio: compared.ratio,
          target: { atLeast: 1.2 },
          note: comparisonNote(compared),
        })
      }
    } finally {
      await Promise.all(open.map((connection) => connection.close()))
    }
  },
}
