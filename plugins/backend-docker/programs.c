/* SPDX-License-Identifier: Apache-2.0 */
/* Programs for containers with several workers: process 1 (keeper), and how the processes of one worker are signalled
 * (killer), in Python (for images of Python and Bash) and in JavaScript.
 *
 * What the engine adds to a container has no parent in it (0), which no code inside can pretend: so both know a worker
 * when they see one.
 *
 * Code of a session has the same user as they have. It can't kill process 1, or trace one that is not dumpable; it can
 * hide a process of its own from the killer by giving it another environment, but such a process belongs to process 1
 * once its parents are gone, and the keeper ends whatever of that is marked for no living worker. */
#include <string.h>

#include "programs.h"

/* All processes but the caller and process 1: {pid: (parent, mark)}, without those that are dead already. */
#define PYTHON_SCAN                                                                                                    \
        "import os,sys,time\n"                                                                                         \
        "def mark(pid):\n"                                                                                             \
        " try:\n"                                                                                                      \
        "  with open(f'/proc/{pid}/environ','rb') as f:\n"                                                             \
        "   for item in f.read(1<<20).split(b'\\0'):\n"                                                                \
        "    if item.startswith(b'SBX_MARK='):return item[9:].decode('latin-1')\n"                                     \
        " except OSError:pass\n"                                                                                       \
        " return ''\n"                                                                                                 \
        "def scan():\n"                                                                                                \
        " found={}\n"                                                                                                  \
        " for name in os.listdir('/proc'):\n"                                                                          \
        "  if not name.isdecimal() or int(name) in (1,os.getpid()):continue\n"                                         \
        "  try:\n"                                                                                                     \
        "   with open(f'/proc/{name}/stat','rb') as f:fields=f.read().rpartition(b')')[2].split()\n"                   \
        "  except OSError:continue\n"                                                                                  \
        "  if fields and fields[0] not in (b'Z',b'X'):found[int(name)]=(int(fields[1]),mark(name))\n"                  \
        " return found\n"                                                                                              \
        "def send(pid,number):\n"                                                                                      \
        " try:os.kill(pid,number)\n"                                                                                   \
        " except OSError:pass\n"

#define PYTHON_KEEPER                                                                                                  \
        PYTHON_SCAN                                                                                                    \
        "import signal\n"                                                                                              \
        "for number in (1,2,3,15):signal.signal(number,signal.SIG_IGN)\n"                                              \
        "try:\n"                                                                                                       \
        " import ctypes\n"                                                                                             \
        " ctypes.CDLL(None).prctl(4,0,0,0,0)\n"                                                                        \
        "except Exception:pass\n"                                                                                      \
        "limit=float(sys.argv[1])\n"                                                                                   \
        "used=time.monotonic()\n"                                                                                      \
        "while time.monotonic()-used<limit:\n"                                                                         \
        " try:\n"                                                                                                      \
        "  while os.waitpid(-1,os.WNOHANG)[0]:pass\n"                                                                  \
        " except ChildProcessError:pass\n"                                                                             \
        " found=scan()\n"                                                                                              \
        " alive={m for parent,m in found.values() if parent==0}\n"                                                     \
        " for pid,(parent,m) in found.items():\n"                                                                      \
        "  if parent==1 and not (m and m in alive):send(pid,9)\n"                                                      \
        " if alive:used=time.monotonic()\n"                                                                            \
        " time.sleep(min(1,limit/4))\n"

/* Stopped first, so that a process that forks faster than it is looked for does not get away. */
#define PYTHON_KILLER                                                                                                  \
        PYTHON_SCAN                                                                                                    \
        "marks=sys.argv[2:]\n"                                                                                         \
        "def meant(m):\n"                                                                                              \
        " return m!='' and any(m.startswith(w[:-1]) if w.endswith('*') else m==w for w in marks)\n"                    \
        "def targets():\n"                                                                                             \
        " found=scan()\n"                                                                                              \
        " wanted={pid for pid,(_,m) in found.items() if meant(m)}\n"                                                   \
        " more=True\n"                                                                                                 \
        " while more:\n"                                                                                               \
        "  more={pid for pid,(parent,_) in found.items() if parent in wanted}-wanted\n"                                \
        "  wanted|=more\n"                                                                                             \
        " return found,wanted\n"                                                                                       \
        "if sys.argv[1]=='2':\n"                                                                                       \
        " for pid,(parent,m) in scan().items():\n"                                                                     \
        "  if parent==0 and meant(m):send(pid,2)\n"                                                                    \
        " sys.exit(0)\n"                                                                                               \
        "stopped=set()\n"                                                                                              \
        "end=time.monotonic()+20\n"                                                                                    \
        "while time.monotonic()<end:\n"                                                                                \
        " wanted=targets()[1]\n"                                                                                       \
        " if not wanted:sys.exit(0)\n"                                                                                 \
        " for pid in wanted-stopped:send(pid,19)\n"                                                                    \
        " if wanted<=stopped:\n"                                                                                       \
        "  for pid in wanted:send(pid,9)\n"                                                                            \
        "  time.sleep(0.002)\n"                                                                                        \
        " stopped|=wanted\n"                                                                                           \
        "sys.exit(1)\n"

#define NODE_SCAN                                                                                                      \
        "const fs=require('fs');\n"                                                                                    \
        "const mark=(pid)=>{try{\n"                                                                                    \
        " const text=fs.readFileSync(`/proc/${pid}/environ`,'latin1');\n"                                              \
        " const item=text.split('\\0').find((part)=>part.startsWith('SBX_MARK='));\n"                                  \
        " return item?item.slice(9):'';\n"                                                                             \
        "}catch{return ''}};\n"                                                                                        \
        "const scan=()=>{const found=new Map();\n"                                                                     \
        " for(const name of fs.readdirSync('/proc')){\n"                                                               \
        "  const pid=Number(name);\n"                                                                                  \
        "  if(!/^[0-9]+$/.test(name)||pid===1||pid===process.pid)continue;\n"                                          \
        "  let text;\n"                                                                                                \
        "  try{text=fs.readFileSync(`/proc/${name}/stat`,'latin1')}catch{continue}\n"                                  \
        "  const fields=text.slice(text.lastIndexOf(')')+1).trim().split(' ');\n"                                      \
        "  if(fields[0]!=='Z'&&fields[0]!=='X')found.set(pid,{parent:Number(fields[1]),mark:mark(pid)});\n"            \
        " }return found};\n"                                                                                           \
        "const send=(pid,number)=>{try{process.kill(pid,number)}catch{}};\n"                                           \
        "const pause=(ms)=>Atomics.wait(new Int32Array(new SharedArrayBuffer(4)),0,0,ms);\n"

#define NODE_KEEPER                                                                                                    \
        NODE_SCAN                                                                                                      \
        "for(const name of ['SIGHUP','SIGINT','SIGTERM'])process.on(name,()=>{});\n"                                   \
        "process.title='keeper';\n"                                                                                    \
        "const limit=Number(process.argv[1])*1000;\n"                                                                  \
        "let used=performance.now();\n"                                                                                \
        "const look=()=>{\n"                                                                                           \
        " const found=scan(),alive=new Set();\n"                                                                       \
        " for(const one of found.values())if(one.parent===0)alive.add(one.mark);\n"                                    \
        " for(const [pid,one] of found)\n"                                                                             \
        "  if(one.parent===1&&!(one.mark&&alive.has(one.mark)))send(pid,9);\n"                                         \
        " if(alive.size)used=performance.now();\n"                                                                     \
        " if(performance.now()-used>=limit)process.exit(0);\n"                                                         \
        "};\n"                                                                                                         \
        "look();setInterval(look,Math.min(1000,limit/4));\n"

#define NODE_KILLER                                                                                                    \
        NODE_SCAN                                                                                                      \
        "const [number,...marks]=process.argv.slice(1);\n"                                                             \
        "const meant=(m)=>m!==''&&marks.some((w)=>w.endsWith('*')?m.startsWith(w.slice(0,-1)):m===w);\n"               \
        "const targets=()=>{const found=scan(),wanted=new Set();\n"                                                    \
        " for(const [pid,one] of found)if(meant(one.mark))wanted.add(pid);\n"                                          \
        " for(let more=true;more;){more=false;\n"                                                                      \
        "  for(const [pid,one] of found)\n"                                                                            \
        "   if(wanted.has(one.parent)&&!wanted.has(pid)){wanted.add(pid);more=true}}\n"                                \
        " return wanted};\n"                                                                                           \
        "if(number==='2'){\n"                                                                                          \
        " for(const [pid,one] of scan())if(one.parent===0&&meant(one.mark))send(pid,2);\n"                             \
        " process.exit(0)}\n"                                                                                          \
        "const stopped=new Set(),end=performance.now()+20000;\n"                                                       \
        "while(performance.now()<end){\n"                                                                              \
        " const wanted=targets();\n"                                                                                   \
        " if(!wanted.size)process.exit(0);\n"                                                                          \
        " const fresh=[...wanted].filter((pid)=>!stopped.has(pid));\n"                                                 \
        " for(const pid of fresh){send(pid,19);stopped.add(pid)}\n"                                                    \
        " if(!fresh.length){for(const pid of wanted)send(pid,9);pause(2)}\n"                                           \
        "}\n"                                                                                                          \
        "process.exit(1);\n"

/* -I, -S: nothing that a session wrote is imported. */
static const char *const python_keeper[] = {"python3", "-I", "-S", "-c", PYTHON_KEEPER, NULL};
static const char *const python_killer[] = {"python3", "-I", "-S", "-c", PYTHON_KILLER, NULL};
static const char *const node_keeper[] = {"node", "-e", NODE_KEEPER, NULL};
static const char *const node_killer[] = {"node", "-e", NODE_KILLER, NULL};

const char *const *program_keeper(enum docker_family family) {
        return family == DOCKER_NODE ? node_keeper : python_keeper;
}

const char *const *program_killer_of(enum docker_family family) {
        return family == DOCKER_NODE ? node_killer : python_killer;
}

const char *program_family_word(enum docker_family family) {
        static const char *const words[] = {[DOCKER_PYTHON] = "python", [DOCKER_NODE] = "node", [DOCKER_BASH] = "bash"};

        return words[family];
}

const char *const *program_killer(const char *word) {
        static const enum docker_family families[] = {DOCKER_PYTHON, DOCKER_NODE, DOCKER_BASH};

        for (size_t i = 0; word != NULL && i < sizeof(families) / sizeof(families[0]); i++)
                if (strcmp(word, program_family_word(families[i])) == 0)
                        return program_killer_of(families[i]);
        return NULL;
}
