/**
 * Words of queries that tool texts say differently, as data. They widen a query; tool texts are never rewritten.
 */

/** Words of one line stand for each other. */
export const synonymGroups: readonly string[] = [
  'create make new add register build',
  'delete remove erase destroy drop purge discard',
  'uninstall unregister remove delete',
  'get return show fetch view retrieve display describe',
  'list show enumerate browse',
  'update edit change modify alter',
  'rename change',
  'run execute start launch invoke call perform',
  'launch boot spin start create',
  'search find look lookup query discover',
  'cancel stop abort terminate halt kill',
  'pause stop suspend',
  'wait block await until finish',
  'finish end complete done',
  'status state progress',
  'folder directory dir',
  'save write store put',
  'read view open',
  'workspace vm sandbox machine container',
  'shell bash terminal command cmd script',
  'config configuration setting option',
  'env environment variable',
  'limit cap quota budget spending',
  'cost spending spend price usage',
  'usage consume consumption spend',
  'rule policy guardrail',
  'forbid deny block prohibit disallow',
  'approval approve confirm',
  'allow permit let',
  'repo repository',
  'copy transfer clone duplicate upload download',
  'fork clone duplicate',
  'log output event history',
  'verify check validate prove integrity',
  'decision thought rationale reason',
  'note record document write',
  'task ticket issue todo',
  'job task execution run',
  'checklist todo',
  'skill instruction',
  'assign give attach connect grant',
  'unassign detach disconnect revoke remove',
  'internet web network online',
  'page website url link',
  'fetch download',
  'document file',
  'seal finalize freeze close',
  'begin start open kick',
  'revert restore undo rollback',
  'merge combine join',
  'assistant agent bot',
  'hand swap switch',
  'share promote publish',
  'catalog catalogue registry',
  'install deploy',
  'ping alive reachable',
  'health healthy alive',
  'whoami identity login',
  'team group organisation',
  'template golden',
  'source html code',
  'dashboard app page ui',
  'trail history chain',
  'regex pattern regular',
  'egress outgoing outbound network',
  'exposes forward expose',
  'answer signal respond reply',
  'settings config',
  'variables env',
]

/** Words of other languages, without accents, by the English word that tool texts use. */
export const translations: Readonly<Record<string, string>> = {
  file: 'datei dateien fichier fichiers archivo archivos fichero ficheiro arquivo файл файлы файла ファイル 文件 檔案 파일 ملف bestand plik dosya फाइल',
  directory:
    'verzeichnis ordner dossier repertoire carpeta directorio pasta cartella папка папку каталог フォルダ ディレクトリ 目录 文件夹 폴더 디렉터리 مجلد katalog',
  read: 'lesen lies lire leer ler leggere прочитать читать чтение 読む 読み取 読み込 读取 阅读 讀取 읽기 읽어 قراءة lezen czytaj',
  write: 'schreiben ecrire escribir escrever scrivere написать записать 書く 書き込 写入 寫入 쓰기 كتابة schrijven',
  create:
    'erstellen erstelle anlegen neue neuer neues creer crear criar creare создать создай 作成 作る 新規 创建 新建 建立 생성 만들기 إنشاء maken utworz olustur',
  delete:
    'loschen entfernen supprimer effacer eliminar borrar excluir apagar eliminare удалить удали 削除 删除 刪除 삭제 حذف verwijderen usun',
  list: 'auflisten anzeigen liste lister listar mostrar elencare список показать перечислить 一覧 列表 列出 목록 قائمة lijst',
  update:
    'aktualisieren andern mettre modifier actualizar atualizar modificar aggiornare обновить изменить 更新 変更 修改 업데이트 수정 تحديث',
  search:
    'suchen suche finden chercher rechercher recherche buscar pesquisar cercare найти поиск искать 検索 探す 搜索 查找 검색 찾기 بحث zoeken szukaj',
  run: 'ausfuhren starten executer lancer ejecutar executar eseguire запустить выполнить 実行 运行 执行 執行 실행 تشغيل تنفيذ uitvoeren',
  stop: 'stoppen anhalten beenden arreter detener parar fermare остановить 停止 중지 إيقاف',
  wait: 'warten attendre esperar aspettare ждать подождать 待つ 等待 대기',
  command: 'befehl befehle commande commandes comando comandos команда команду команды コマンド 命令 명령 أمر',
  task: 'aufgabe aufgaben tache taches tarea tareas tarefa tarefas compito задача задачу задачи задач タスク 任务 任務 작업 مهمة taak zadanie',
  agent: 'agente agenten agentes агент агента агентов エージェント 代理 智能体 에이전트 وكيل',
  workflow: 'arbeitsablauf flux flujo fluxo процесс ワークフロー 工作流 워크플로',
  workspace:
    'arbeitsbereich umgebung maschine espace espacio machine maquina машина песочница ワークスペース 仮想マシン 工作区 虚拟机 작업공간',
  web: 'internet netz toile сеть интернет сети ウェブ 网页 网络 網頁 웹 الويب',
  page: 'seite pagina страница страницу ページ 页面 페이지 صفحة',
  knowledge:
    'wissen wissensbasis wissensdatenbank connaissances conocimiento conhecimento знаний знания 知識 知识 지식 معرفة',
  base: 'basis datenbank база базу base ベース 库 베이스',
  policy: 'richtlinie richtlinien regel politique regle politica regla правило политика ポリシー 策略 정책 سياسة',
  limit: 'grenze limite limites лимит ограничение 制限 上限 限制 한도 제한',
  server: 'serveur servidor сервер サーバー サーバ 服务器 서버 خادم',
  log: 'protokoll protokolle journal registro registros журнал логи ログ 日志 로그 سجل',
  status: 'zustand etat estado stato статус состояние 状態 状态 상태 حالة',
  skill: 'fahigkeit fahigkeiten competence habilidad навык スキル 技能 스킬',
  environment: 'umgebungsvariable umgebungsvariablen environnement entorno ambiente окружения окружение 環境 环境 환경',
  variable: 'variablen variables переменная переменные 変数 变量 변수',
  team: 'mannschaft equipe equipo команда チーム 团队 팀 فريق',
  message: 'nachricht mensaje mensagem сообщение メッセージ 消息 메시지 رسالة',
  app: 'anwendung application aplicacion приложение アプリ 应用 앱 تطبيق',
  tool: 'werkzeug werkzeuge outil outils herramienta herramientas ferramenta инструмент инструменты ツール 工具 도구 أداة',
  user: 'benutzer nutzer utilisateur usuario пользователь ユーザー 用户 사용자 مستخدم',
  decision: 'entscheidung decision решение 決定 决策 결정 قرار',
}

/** Words of a query that say nothing about a tool. */
export const stopWords: ReadonlySet<string> = new Set(
  (
    'a an the of to in on at for from with by and or as into onto out off over up is are am was were be been being do does did ' +
    'i me my mine we us our you your it its this that these those there here please want wants need needs how can could ' +
    'should would will shall may might must what which who whom whose when where why if then so but not no just some any ' +
    'something anything thing things have has had let lets about via using use way also them they their he she his her ' +
    'der die das den dem ein eine einen einem und von mit im am zu fur ist ' +
    'le la les un une des du de en et dans pour sur el los las una y por para con del al o os as um uma da do em e ' +
    'il lo gli di в на и с из для по'
  ).split(' '),
)
